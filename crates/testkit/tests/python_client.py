"""What a Python program does with the API. Run by python.rs; KUBECONFIG says where the server is."""

import threading

from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException

GROUP, VERSION = "tombolo.dev", "v1alpha1"

config.load_kube_config()
core = client.CoreV1Api()
custom = client.CustomObjectsApi()


def refused(code, call, *arguments, **options):
    try:
        call(*arguments, **options)
    except ApiException as error:
        assert error.status == code, f"{error.status} instead of {code}: {error.body}"
        return error.body
    raise AssertionError(f"{call.__name__} should have failed with {code}")


def app(name, replicas=1):
    component = {"name": "web", "replicas": replicas, "run": [{"container": {"image": "nginx:1"}}]}
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "App",
        "metadata": {"name": name, "labels": {"made-by": "python"}},
        "spec": {"components": [component]},
    }


def config_maps():
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="settings"), data={"a": "1"})
    made = core.create_namespaced_config_map("default", body)
    assert made.metadata.uid and made.metadata.creation_timestamp
    refused(409, core.create_namespaced_config_map, "default", body)
    core.patch_namespaced_config_map("settings", "default", {"data": {"b": "2"}})
    read = core.read_namespaced_config_map("settings", "default")
    assert read.data == {"a": "1", "b": "2"}, read.data
    made.data = {"c": "3"}
    refused(409, core.replace_namespaced_config_map, "settings", "default", made)
    core.delete_namespaced_config_map("settings", "default")
    refused(404, core.read_namespaced_config_map, "settings", "default")


def custom_objects():
    where = (GROUP, VERSION, "default", "apps")
    made = custom.create_namespaced_custom_object(*where, app("shop"))
    assert made["metadata"]["generation"] == 1
    custom.patch_namespaced_custom_object(*where, "shop", {"spec": {"description": "a shop"}})
    read = custom.get_namespaced_custom_object(*where, "shop")
    assert read["spec"]["description"] == "a shop"
    assert read["spec"]["components"][0]["name"] == "web"
    status = {"status": {"phase": "Pending"}}
    custom.patch_namespaced_custom_object_status(*where, "shop", status)
    read = custom.get_namespaced_custom_object(*where, "shop")
    assert read["status"]["phase"] == "Pending"
    read["spec"]["description"] = "another shop"
    custom.replace_namespaced_custom_object(*where, "shop", read)
    refused(409, custom.replace_namespaced_custom_object, *where, "shop", read)
    said = refused(422, custom.create_namespaced_custom_object, *where, app("bad", replicas="two"))
    assert "spec.components[0].replicas" in said, said
    custom.delete_namespaced_custom_object(*where, "shop")
    refused(404, custom.get_namespaced_custom_object, *where, "shop")


def pages():
    where = (GROUP, VERSION, "default", "apps")
    for number in range(5):
        custom.create_namespaced_custom_object(*where, app(f"app-{number}"))
    names, token = [], None
    while True:
        options = {"limit": 2, "label_selector": "made-by=python"}
        if token:
            options["_continue"] = token
        page = custom.list_namespaced_custom_object(*where, **options)
        assert len(page["items"]) <= 2
        names += [item["metadata"]["name"] for item in page["items"]]
        token = page["metadata"].get("continue")
        if not token:
            break
    assert names == [f"app-{number}" for number in range(5)], names
    custom.delete_collection_namespaced_custom_object(*where, label_selector="made-by=python")
    assert custom.list_namespaced_custom_object(*where)["items"] == []


def watches():
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="seen"), data={})
    start = core.list_namespaced_config_map("default").metadata.resource_version

    def change():
        core.create_namespaced_config_map("default", body)
        core.patch_namespaced_config_map("seen", "default", {"data": {"a": "1"}})
        core.delete_namespaced_config_map("seen", "default")

    thread = threading.Thread(target=change)
    thread.start()
    seen = []
    stream = watch.Watch()
    options = {"resource_version": start, "field_selector": "metadata.name=seen"}
    for event in stream.stream(
        core.list_namespaced_config_map, "default", timeout_seconds=60, **options
    ):
        seen.append(event["type"])
        if event["type"] == "DELETED":
            stream.stop()
    thread.join()
    assert seen == ["ADDED", "MODIFIED", "DELETED"], seen


def the_rest():
    assert client.VersionApi().get_code().major == "1"
    names = [group.name for group in client.ApisApi().get_api_versions().groups]
    assert GROUP in names, names
    assert "default" in [item.metadata.name for item in core.list_namespace().items]
    attributes = client.V1ResourceAttributes(verb="delete", resource="sites", group=GROUP)
    review = client.V1SelfSubjectAccessReview(
        spec=client.V1SelfSubjectAccessReviewSpec(resource_attributes=attributes)
    )
    answer = client.AuthorizationV1Api().create_self_subject_access_review(review)
    assert answer.status.allowed


for part in (config_maps, custom_objects, pages, watches, the_rest):
    part()
    print(part.__name__)
print("all good")
