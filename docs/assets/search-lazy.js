/* The theme fetches the index of all pages with every page. This holds the
   request back until somebody is about to search. */
(() => {
  const search = document.querySelector("[data-md-component=search]");
  const wanted = new Promise((resolve) => {
    const asked = new URLSearchParams(location.search);
    if (asked.has("q") || asked.has("h")) resolve();
    search.addEventListener("focusin", resolve, { once: true });
    document.querySelector("#__search").addEventListener("change", resolve, { once: true });
  });
  const { open, send } = XMLHttpRequest.prototype;
  const held = new WeakSet();
  XMLHttpRequest.prototype.open = function (method, address, ...rest) {
    if (`${address}`.endsWith("/search/search_index.json")) held.add(this);
    return open.call(this, method, address, ...rest);
  };
  XMLHttpRequest.prototype.send = function (...body) {
    if (!held.delete(this)) return send.apply(this, body);
    wanted.then(() => send.apply(this, body));
  };
})();
