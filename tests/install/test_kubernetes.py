# SPDX-License-Identifier: Apache-2.0
"""The files for Kubernetes and Compose, without a cluster and without an engine: they say what the
API knows (kubernetes.schema.json), names in them lead somewhere, and processes that are started as
they say do what docs/guide/kubernetes.md promises."""
from __future__ import annotations

import contextlib
import copy
import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any, Iterator

import pytest
import yaml
from jsonschema import Draft202012Validator

from pawltest.gateway import DIE_WITH_THE_TEST, PAWL, ROOT, free_port, run
from pawltest.wire import PATIENCE, Answer, Client, eventually

KUBERNETES = ROOT / "packaging/kubernetes"
COMPOSE = ROOT / "packaging/compose.yaml"
FILES = sorted(KUBERNETES.glob("*/*.yaml"))
FOLDERS = ("service-postgres", "service-sqlite", "sidecar")
SCHEMA = json.loads((ROOT / "tests/install/kubernetes.schema.json").read_text("utf-8"))
PAGE = (ROOT / "docs/guide/kubernetes.md").read_text("utf-8")
SECRET = {"admin-token": "a-token-of-the-tests",
          "store-url": "postgres://pawl:secret@127.0.0.1:9/pawl"}
SECONDS = {"s": 1, "m": 60, "h": 3600}
Object = dict[str, Any]


def load(path: Path) -> Object:
    return yaml.safe_load(path.read_text("utf-8"))


def objects(folder: str) -> dict[str, Object]:
    """What the folder makes, by kind."""
    found = [load(path) for path in sorted((KUBERNETES / folder).glob("*.yaml"))
             if path.name != "kustomization.yaml"]
    assert len({one["kind"] for one in found}) == len(found)
    return {one["kind"]: one for one in found}


def template_of(folder: str) -> Object:
    made = objects(folder)
    return (made.get("Deployment") or made["StatefulSet"])["spec"]["template"]


def container_of(folder: str) -> Object:
    """pawl's own."""
    pod = template_of(folder)["spec"]
    [found] = [one for one in [*pod.get("initContainers", []), *pod["containers"]]
               if one["name"] == "pawl"]
    return found


def config_of(folder: str) -> str:
    return objects(folder)["ConfigMap"]["data"]["pawl.yaml"]


def port_of(container: Object, name: str) -> int:
    [found] = [port["containerPort"] for port in container["ports"] if port["name"] == name]
    return found


def seconds(span: str) -> int:
    return int(span[:-1]) * SECONDS[span[-1]]


def errors(value: Object, name: str = "") -> list[str]:
    schema = {**SCHEMA["$defs"][name], "$defs": SCHEMA["$defs"]} if name else SCHEMA
    found = Draft202012Validator(schema).iter_errors(value)
    return [f"{error.json_path}: {error.message}" for each in found
            for error in [each, *(each.context or [])]]


# ---- what the files say ----


def ids(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_a_file_is_an_object_of_the_api(path):
    value = load(path)
    assert value["kind"] in SCHEMA["$defs"]
    assert not errors(value, value["kind"])
    assert not errors(value)


def test_the_schema_knows_no_other_fields_and_types():
    Draft202012Validator.check_schema(SCHEMA)
    good = objects("service-postgres")["Deployment"]
    for place, name, value in (("spec", "replica", 2), ("spec", "replicas", "2"),
                               ("metadata", "name", "Pawl_1")):
        bad = copy.deepcopy(good)
        bad[place][name] = value
        assert errors(bad)
    bad = copy.deepcopy(good)
    container = bad["spec"]["template"]["spec"]["containers"][0]
    container["readinesProbe"] = container.pop("readinessProbe")
    assert errors(bad, "Deployment")


@pytest.mark.parametrize("folder", [*FOLDERS, "podmonitor"])
def test_a_kustomization_lists_the_files_there_are_and_names_the_images(folder):
    made = load(KUBERNETES / folder / "kustomization.yaml")
    there = {path.name for path in (KUBERNETES / folder).iterdir()} - {"kustomization.yaml"}
    assert made["resources"] == sorted(there)
    if folder == "podmonitor":
        return
    pod = template_of(folder)["spec"]
    images = {one["image"] for one in [*pod.get("initContainers", []), *pod["containers"]]}
    assert {one["name"] for one in made["images"]} == images
    assert {one["newTag"] for one in made["images"]} == {"VERSION"}, "nobody's, for you to replace"


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_selects_finds_and_what_is_mounted_is_there(folder):
    made, template = objects(folder), template_of(folder)
    labels = template["metadata"]["labels"].items()
    workload = made.get("Deployment") or made["StatefulSet"]
    monitor = objects("podmonitor")["PodMonitor"]["spec"]
    selectors = [workload["spec"]["selector"]["matchLabels"], made["Service"]["spec"]["selector"],
                 monitor["selector"]["matchLabels"]]
    selectors += [one["labelSelector"]["matchLabels"]
                  for one in template["spec"].get("topologySpreadConstraints", [])]
    if "PodDisruptionBudget" in made:
        selectors.append(made["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"])
    assert all(selector.items() <= labels for selector in selectors)
    volumes = {one["name"] for one in template["spec"]["volumes"]}
    volumes |= {one["metadata"]["name"]
                for one in workload["spec"].get("volumeClaimTemplates", [])}
    assert {one["name"] for one in container_of(folder)["volumeMounts"]} == volumes
    [projected] = [one["projected"] for one in template["spec"]["volumes"]]
    assert projected["sources"] == [{"configMap": {"name": made["ConfigMap"]["metadata"]["name"]}},
                                    {"secret": {"name": "pawl"}}]
    assert projected["defaultMode"] == 0o440, "the group reads it, which fsGroup is"
    if "StatefulSet" in made:
        assert workload["spec"]["serviceName"] == made["Service"]["metadata"]["name"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_ports_and_secrets_of_the_config_are_those_of_the_pod(folder):
    config, container = yaml.safe_load(config_of(folder)), container_of(folder)
    assert config["listen"] == f"0.0.0.0:{port_of(container, 'http')}"
    assert config["admin"] == f"0.0.0.0:{port_of(container, 'admin')}"
    [port] = objects(folder)["Service"]["spec"]["ports"]
    assert port["targetPort"] == port_of(container, "http")  # not by its name: see the page
    [endpoint] = objects("podmonitor")["PodMonitor"]["spec"]["podMetricsEndpoints"]
    assert port_of(container, endpoint["port"]) == port_of(container, "admin")
    keys = {key for key in SECRET if f"file:{key}" in config_of(folder)}
    assert keys == {"admin-token", *(["store-url"] if folder != "service-sqlite" else [])}
    above = (KUBERNETES / folder / "configmap.yaml").read_text("utf-8").partition("apiVersion")[0]
    assert set(re.findall(r"--from-literal=([\w-]+)=", above)) == keys
    credentials = endpoint["authorization"]["credentials"]
    assert (credentials["name"], credentials["key"]) == ("pawl", "admin-token")
    [store] = [one["value"] for one in container["env"] if one["name"] == "PAWL_STORE"]
    assert store == {"service-sqlite": config["store"].removeprefix("sqlite:")}.get(
        folder, "file:/etc/pawl/store-url"), "commands in the container find the same store"


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_slow_store_kills_no_gateway_and_gets_it_no_requests(folder):
    container = container_of(folder)
    for probe in ("startupProbe", "livenessProbe"):
        assert container[probe]["httpGet"] == {"path": "/livez", "port": "admin"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "admin"}


@pytest.mark.parametrize("folder", FOLDERS)
def test_it_has_time_to_drain_and_balancers_to_notice(folder):
    config, pod = yaml.safe_load(config_of(folder)), template_of(folder)["spec"]
    taken = seconds(config["drain_delay"]) + seconds(config["drain"])
    assert "lifecycle" not in container_of(folder)
    if folder == "sidecar":  # which is told when the service has ended
        [service] = pod["containers"]
        taken += service["lifecycle"]["preStop"]["sleep"]["seconds"]
        assert service["lifecycle"]["preStop"]["sleep"]["seconds"] == 10
        assert container_of(folder)["restartPolicy"] == "Always"
        assert taken + 30 <= pod["terminationGracePeriodSeconds"], "30 s are the service's own"
    else:
        assert seconds(config["drain_delay"]) == 10
        assert taken + 10 <= pod["terminationGracePeriodSeconds"]
    assert config["reload"] == "30s"


@pytest.mark.parametrize("folder", FOLDERS)
def test_it_has_few_rights_and_its_limits(folder):
    pod, container = template_of(folder)["spec"], container_of(folder)
    context = {**pod["securityContext"], **container["securityContext"]}
    assert {name: context[name] for name in ("runAsNonRoot", "runAsUser", "runAsGroup", "fsGroup",
                                             "readOnlyRootFilesystem", "seccompProfile",
                                             "allowPrivilegeEscalation", "capabilities")} == {
        "runAsNonRoot": True, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532,
        "readOnlyRootFilesystem": True, "seccompProfile": {"type": "RuntimeDefault"},
        "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert pod["automountServiceAccountToken"] is False and pod["enableServiceLinks"] is False
    assert {*container["resources"]["limits"]} == {"cpu", "memory"}


def test_a_file_has_one_gateway_and_a_block_volume():
    made = objects("service-sqlite")
    assert made["StatefulSet"]["spec"]["replicas"] == 1
    [claim] = made["StatefulSet"]["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["accessModes"] == ["ReadWriteOncePod"]
    [mount] = [one for one in container_of("service-sqlite")["volumeMounts"]
               if one["name"] == claim["metadata"]["name"]]
    assert yaml.safe_load(config_of("service-sqlite"))["store"].startswith(
        f"sqlite:{mount['mountPath']}/")
    assert "PodDisruptionBudget" not in made


@pytest.mark.parametrize("folder", ["service-postgres", "sidecar"])
def test_of_several_gateways_one_is_always_there(folder):
    made = objects(folder)
    spec = made["Deployment"]["spec"]
    assert spec["replicas"] == 2 and spec["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert made["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1
    assert [one["topologyKey"] for one in template_of(folder)["spec"]["topologySpreadConstraints"]
            ] == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]


# ---- processes that are started as they say ----


class Volume:
    """As the kubelet lays a projected one out, and changes it: by a link to a new folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.files: dict[str, str] = {}
        self._turn = 0
        folder.mkdir(parents=True)

    def become(self, **files: str) -> None:
        """With these in place of the ones of the same names, whose `-` and `.` are `_` here."""
        self.files.update(files)
        self._turn += 1
        version = self.folder / f"..{self._turn}"
        version.mkdir()
        for name, text in self.files.items():
            name = name.replace("pawl_yaml", "pawl.yaml").replace("_", "-")
            (version / name).write_text(text, "utf-8")
            (version / name).chmod(0o440)
            if self._turn == 1:
                (self.folder / name).symlink_to(f"..data/{name}")
        (self.folder / "..next").symlink_to(version.name)
        (self.folder / "..next").rename(self.folder / "..data")


def fitted(text: str, places: dict[str, str]) -> str:
    """With what is here in the places of what a container has."""
    return re.sub("|".join(map(re.escape, places)), lambda found: places[found[0]], text)


@contextlib.contextmanager
def started(command: list[str], environment: dict[str, str],
            log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Ends by SIGTERM, and must end well."""
    with log.open("wb") as out:
        process = subprocess.Popen([*DIE_WITH_THE_TEST, *command], stdin=subprocess.DEVNULL,
                                   stdout=out, stderr=out, env=environment)
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0, log.read_text("utf-8")
    finally:
        process.kill()
        process.wait(PATIENCE)


def ask(port: int, path: str, *headers: tuple[str, str]) -> Answer:
    with Client(port) as client:
        return client.request("GET", path, [("Host", f"10.0.0.1:{port}"), *headers])


def post(port: int, key: str, *headers: tuple[str, str]) -> Answer:
    with Client(port) as client:
        return client.request("POST", "/refunds", [
            ("Idempotency-Key", key), ("Content-Type", "application/json"), *headers],
            b'{"charge_id": "ch_1", "amount": 1}')


def environment_of(variables: dict[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PAWL_")}
    return {**kept, **variables}


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_config_is_taken_without_a_warning(folder, tmp_path):
    volume = Volume(tmp_path / "etc/pawl")
    volume.become(pawl_yaml=fitted(config_of(folder), {
        "/data": str(tmp_path), "http://service:80": "http://127.0.0.1:80"}),
        **{name.replace("-", "_"): text for name, text in SECRET.items()})
    tested = run("serve", "--test", "--strict", "-c", volume.folder / "pawl.yaml",
                 env=environment_of({}))
    assert tested.returncode == 0, tested.stderr
    for name in SECRET:
        (volume.folder / "..data" / name).chmod(0o600)
        (volume.folder / "..data" / name).write_text("short")
    refused = run("serve", "--test", "-c", volume.folder / "pawl.yaml", env=environment_of({}))
    assert refused.returncode == 2 and "admin_token" in refused.stderr


def test_a_gateway_is_as_its_probes_and_its_service_expect_it(upstream, tmp_path):
    """The StatefulSet's; a change of the Secret alone is read, too."""
    container, template = container_of("service-sqlite"), template_of("service-sqlite")
    ports = {name: free_port() for name in ("http", "admin")}
    places = {"/etc/pawl": str(tmp_path / "etc"), "/data": str(tmp_path / "data"),
              "http://service:80": f"http://127.0.0.1:{upstream.port}", "reload: 30s": "reload: 1s",
              "drain_delay: 10s": "drain_delay: 0s",
              **{f"0.0.0.0:{port_of(container, name)}": f"0.0.0.0:{port}"
                 for name, port in ports.items()}}
    (tmp_path / "data").mkdir()
    volume = Volume(tmp_path / "etc")
    volume.become(pawl_yaml=fitted(config_of("service-sqlite"), places),
                  admin_token=SECRET["admin-token"])
    command = [str(PAWL), *(fitted(one, places) for one in container["args"])]
    variables = {one["name"]: fitted(one["value"], places) for one in container["env"]}
    log = tmp_path / "log"
    with started(command, environment_of(variables), log):
        eventually(lambda: "pawl: ready" in log.read_text("utf-8"), "the ready line")
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            wanted = container[probe]["httpGet"]
            eventually(lambda: ask(ports[wanted["port"]], wanted["path"]).status == 200, probe)
        path = template["metadata"]["annotations"]["prometheus.io/path"]
        assert template["metadata"]["annotations"]["prometheus.io/port"] == str(
            port_of(container, "admin"))
        assert ask(ports["admin"], path).status == 401
        told = ("Authorization", f"Bearer {SECRET['admin-token']}")
        assert ask(ports["admin"], path, told).status == 200
        merchant = ("X-Merchant-Id", "m1")
        assert post(ports["http"], "k1", merchant).mark == (201, "stored")
        assert post(ports["http"], "k1", merchant).mark == (201, "replayed")
        listed = run("keys", "list", "--json", env=environment_of(variables))
        assert listed.returncode == 0 and "refunds.create" in listed.stdout
        volume.become(admin_token="another-token-of-the-tests")
        eventually(lambda: "config_reloaded" in log.read_text("utf-8"), "the reload")
        [line] = [line for line in log.read_text("utf-8").splitlines()
                  if '"config_needs_restart"' in line]
        assert "admin_token" in line
    assert upstream.effects() == 1


# ---- Compose ----


def test_the_compose_file_says_what_compose_knows_and_limits_each_service():
    made = load(COMPOSE)
    assert not errors(made, "compose")
    for service in made["services"].values():
        assert service["user"] == "65532:65532" and service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service["image"].startswith("${PAWL_IMAGE:?")
    pawl = made["services"]["pawl"]
    named = [one.partition(":")[0] for one in pawl["volumes"]]
    assert [one for one in named if not one.startswith(".")] == [*made["volumes"]]
    config = load(ROOT / "packaging/compose/pawl.yaml")
    assert seconds(config["drain"]) + 10 <= seconds(pawl["stop_grace_period"])


def test_what_compose_starts_stores_a_response_and_replays_it(tmp_path):
    services = load(COMPOSE)["services"]
    ports = {port: free_port() for port in ("8080", "8081", "9000")}
    places = {"/usr/bin/pawl": str(PAWL), "/etc/pawl": str(tmp_path / "etc"),
              "/data": str(tmp_path / "data"), "/tmp/": f"{tmp_path}/",
              **{f":{port}": f":{own}" for port, own in ports.items()}}
    for folder in ("etc", "data"):
        (tmp_path / folder).mkdir()
    (tmp_path / "etc/pawl.yaml").write_text(
        fitted((ROOT / "packaging/compose/pawl.yaml").read_text("utf-8"), places), "utf-8")

    def run_service(name: str) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
        service = services[name]
        variables = {key: fitted(value, places)
                     for key, value in service.get("environment", {}).items()}
        return started([str(PAWL), *(fitted(one, places) for one in service["command"])],
                       environment_of(variables), tmp_path / f"{name}.log")

    def is_healthy(name: str) -> bool:
        kind, *command = services[name]["healthcheck"]["test"]
        assert kind == "CMD"
        environment = environment_of({"PAWL_ADMIN": f"http://127.0.0.1:{ports['8081']}"})
        return subprocess.run([fitted(one, places) for one in command], check=False, timeout=30,
                              capture_output=True, env=environment).returncode == 0

    assert services["demo"]["network_mode"] == "service:pawl", "it is on loopback of pawl's"
    assert not is_healthy("pawl")
    with run_service("pawl"), run_service("demo"):
        eventually(lambda: is_healthy("pawl"), "a healthy gateway")
        eventually(lambda: "listening" in (tmp_path / "demo.log").read_text("utf-8"), "the service")
        first = post(int(ports["8080"]), "k1")
        assert first.mark == (201, "stored")
        again = post(int(ports["8080"]), "k1")
        assert (again.mark, again.body) == ((201, "replayed"), first.body)
    assert len((tmp_path / "ledger.jsonl").read_text("utf-8").splitlines()) == 1


# ---- the page ----


@pytest.mark.parametrize("folder", [*FOLDERS, "podmonitor"])
def test_the_page_leads_to_each_folder_and_its_secret(folder):
    assert f"packaging/kubernetes/{folder}" in PAGE
    for key in SECRET:
        assert f"--from-literal={key}=" in PAGE
