/* A published address whose anchor is now on another page leads there. A server
   never sees the anchor, so the page that lost it has to forward. */
(() => {
  const forward = () => {
    const moved = document.querySelector("[data-moved]");
    const places = moved ? JSON.parse(moved.dataset.moved) : {};
    const place = places[location.hash.slice(1)];
    if (place) location.replace(place);
  };
  addEventListener("hashchange", forward);
  document$.subscribe(forward);
})();
