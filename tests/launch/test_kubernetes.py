"""The manifests: what the cluster would refuse, and what the trainer means."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from lockstep.trainer.extensions.preemption import EXIT_CODE, GRACE_SECONDS

HERE = Path(__file__).parent
MANIFESTS = HERE.parents[1] / "code" / "launch" / "kubernetes"
DOCUMENTS = {
    document["kind"]: document
    for path in sorted(MANIFESTS.iterdir())
    for document in yaml.safe_load_all(path.read_text())
}
# All but Kueue's, whose schemas are not in the folder.
CHECKED = [
    kind
    for kind, document in DOCUMENTS.items()
    if not document["apiVersion"].startswith("kueue.x-k8s.io/")
]
JOB = DOCUMENTS["Job"]["spec"]
POD = JOB["template"]["spec"]
RUNTIME = DOCUMENTS["TrainingRuntime"]["spec"]["template"]["spec"]
(NODE,) = RUNTIME["replicatedJobs"]
NODE_POD = NODE["template"]["spec"]["template"]["spec"]
JOBSET = DOCUMENTS["JobSet"]["spec"]
(SET_JOB,) = (job["template"]["spec"] for job in JOBSET["replicatedJobs"])
SET_POD = SET_JOB["template"]["spec"]


def faults(document: dict[str, Any]) -> list[str]:
    """What the schema of its kind says against a document."""
    path = HERE / "schemas" / f"{document['kind'].lower()}.json"
    validator = Draft202012Validator(json.loads(path.read_text()))
    return [error.message for error in validator.iter_errors(document)]


@pytest.mark.parametrize("kind", CHECKED)
def test_the_schema_accepts_it(kind: str) -> None:
    """Each manifest fits the published schema of its kind."""
    assert not faults(DOCUMENTS[kind])


@pytest.mark.parametrize("kind", CHECKED)
def test_the_schema_refuses_a_field_that_is_not(kind: str) -> None:
    """Or the test above could not fail: a server drops it without a word."""
    wrong = deepcopy(DOCUMENTS[kind])
    wrong["spec"]["backoffLimits"] = 1
    assert "backoffLimits" in faults(wrong)[0]


def test_exit_codes_mean_what_the_trainer_means() -> None:
    """The Kubernetes job fails on the trainer's exit code for bad settings and
    does not count its exit code for preemption."""
    rules = JOB["podFailurePolicy"]["rules"]
    by_code = {
        code: rule["action"]
        for rule in rules
        if "onExitCodes" in rule
        for code in rule["onExitCodes"]["values"]
    }
    assert by_code == {2: "FailJob", EXIT_CODE: "Ignore"}
    (trainer,) = POD["containers"]
    assert {
        rule["onExitCodes"]["containerName"]
        for rule in rules
        if "onExitCodes" in rule
    } == {trainer["name"]}
    assert POD["restartPolicy"] == "Never"


def test_the_jobset_fails_on_bad_settings_and_restarts_on_all_else() -> None:
    """The trainer's exit code for bad settings fails a job by its pod failure
    policy, and that fails the set. A preemption isn't counted, and any other
    failed pod restarts the set."""
    rules = SET_JOB["podFailurePolicy"]["rules"]
    assert {
        code: rule["action"]
        for rule in rules
        for code in rule["onExitCodes"]["values"]
    } == {2: "FailJob", EXIT_CODE: "Ignore"}
    assert SET_JOB["backoffLimit"] == 0
    settings, broken = JOBSET["failurePolicy"]["rules"]
    assert settings["action"] == "FailJobSet"
    assert settings["onJobFailureReasons"] == ["PodFailurePolicy"]
    assert broken["action"] == "RestartJobSet"
    assert not {*broken} & {"onJobFailureReasons", "targetReplicatedJobs"}


def amount(quantity: Any) -> float:
    """Return a quantity as a number; of binary units, only tebibytes."""
    text = str(quantity)
    return float(text.removesuffix("Ti")) * (2**40 if text[-1] == "i" else 1)


def test_the_queue_has_quota_for_the_whole_set() -> None:
    """The JobSet's label names the LocalQueue, which uses the ClusterQueue,
    whose only flavor exists. Its quota covers each resource that the pods ask
    for, on eight times as many nodes as the set has."""
    local, cluster = DOCUMENTS["LocalQueue"], DOCUMENTS["ClusterQueue"]
    labels = DOCUMENTS["JobSet"]["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/queue-name"] == local["metadata"]["name"]
    assert local["spec"]["clusterQueue"] == cluster["metadata"]["name"]
    (group,) = cluster["spec"]["resourceGroups"]
    (flavor,) = group["flavors"]
    assert flavor["name"] == DOCUMENTS["ResourceFlavor"]["metadata"]["name"]
    (container,) = SET_POD["containers"]
    asked = container["resources"]["limits"]
    quota = {r["name"]: r["nominalQuota"] for r in flavor["resources"]}
    assert set(asked) == set(quota) == set(group["coveredResources"])
    for name, limit in asked.items():
        nodes = amount(quota[name]) / amount(limit)
        assert nodes == 8 * SET_JOB["completions"]


def test_ranks_of_the_jobset_find_one_another() -> None:
    """JobSet names a pod by set, job, job's number and pod's number."""
    (trainer,) = SET_POD["containers"]
    given = {item["name"]: item.get("value") for item in trainer["env"]}
    (job,) = JOBSET["replicatedJobs"]
    name = DOCUMENTS["JobSet"]["metadata"]["name"]
    assert given["MASTER_ADDR"] == f"{name}-{job['name']}-0-0.{name}"
    count = int(given["NNODES"])
    assert count == SET_JOB["completions"] == SET_JOB["parallelism"]


@pytest.mark.parametrize("pod", [POD, NODE_POD, SET_POD])
def test_there_is_time_to_save(pod: dict[str, Any]) -> None:
    """The trainer gives the last steps seconds, then waits for a checkpoint."""
    assert pod["terminationGracePeriodSeconds"] >= 10 * GRACE_SECONDS


def test_a_pod_has_a_node() -> None:
    """Each pod gets all GPUs of a node with as many ranks, the node's RDMA
    device, /dev/shm in memory, and the right to pin memory."""
    trainer = DOCUMENTS["TrainJob"]["spec"]["trainer"]
    (container,), (node,) = POD["containers"], NODE_POD["containers"]
    (member,) = SET_POD["containers"]
    for pod, runs, limits in (
        (POD, container, container["resources"]["limits"]),
        (SET_POD, member, member["resources"]["limits"]),
        (NODE_POD, node, trainer["resourcesPerNode"]["limits"]),
    ):
        assert limits["nvidia.com/gpu"] == 8
        assert [name for name in limits if name.startswith("rdma/")]
        assert runs["securityContext"]["capabilities"]["add"] == ["IPC_LOCK"]
        mounted = {v["mountPath"]: v["name"] for v in runs["volumeMounts"]}
        volumes = {v["name"]: v for v in pod["volumes"]}
        shm = volumes[mounted["/dev/shm"]]
        assert shm["emptyDir"]["medium"] == "Memory"
    assert container["command"][1:] == member["command"][1:] == ["8"]
    assert "--nproc-per-node=8" in trainer["command"]


def test_torchrun_leaves_the_pod_its_grace() -> None:
    """torchrun's own clock between SIGTERM and SIGKILL is below the pod's."""
    trainer = DOCUMENTS["TrainJob"]["spec"]["trainer"]
    (option,) = (w for w in trainer["command"] if "shutdown" in w)
    seconds = int(option.removeprefix("--shutdown-timeout="))
    assert 30 < seconds < NODE_POD["terminationGracePeriodSeconds"]


def test_the_job_survives_a_hundred_losses() -> None:
    """The limits count failed pods, or restarts of the set, over the life of
    the job, and every failure ends all pods."""
    assert JOB["backoffLimit"] == 100 * JOB["completions"]
    assert RUNTIME["failurePolicy"]["maxRestarts"] == 100


def test_ranks_find_one_another() -> None:
    (trainer,) = POD["containers"]
    given = {item["name"]: item.get("value") for item in trainer["env"]}
    assert int(given["NNODES"]) == JOB["completions"] == JOB["parallelism"]
    job, service = (
        DOCUMENTS[k]["metadata"]["name"] for k in ("Job", "Service")
    )
    assert given["MASTER_ADDR"] == f"{job}-0.{POD['subdomain']}"
    assert POD["subdomain"] == service
    selector = DOCUMENTS["Service"]["spec"]["selector"]
    assert selector == {"batch.kubernetes.io/job-name": job}


def test_the_trainjob_runs_in_its_runtime() -> None:
    """Kubeflow finds the pods of the trainer by this label and these names."""
    spec = DOCUMENTS["TrainJob"]["spec"]
    runtime = DOCUMENTS["TrainingRuntime"]["metadata"]["name"]
    assert spec["runtimeRef"]["name"] == runtime
    label = NODE["template"]["metadata"]["labels"]
    assert label == {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    assert NODE["name"] == NODE_POD["containers"][0]["name"] == "node"


def test_all_run_the_same_image() -> None:
    images = {p["containers"][0]["image"] for p in (POD, NODE_POD, SET_POD)}
    recipe = (MANIFESTS.parent / "Containerfile").read_text()
    (image,) = images
    assert f"--tag {image} ." in recipe
