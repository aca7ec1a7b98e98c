"""Checks manifests: Kubernetes' own forms with kubernetes-validate, those of KServe with its models.

    python manifests.py FILE...

Prints all documents as one JSON list, or what is wrong, with exit status 1.
"""

import json
import re
import sys

import kserve
import kubernetes_validate
import yaml

VERSION = kubernetes_validate.latest_version()

KSERVE = {
    "serving.kserve.io/v1alpha1 ServingRuntime": kserve.V1alpha1ServingRuntime,
    "serving.kserve.io/v1beta1 InferenceService": kserve.V1beta1InferenceService,
}

# Custom resources of others, for which no package has the forms that it could check.
UNCHECKED = {"monitoring.coreos.com/v1 ServiceMonitor"}


class Wrong(Exception):
    """A manifest that the cluster would refuse."""


def check_kubernetes(document):
    try:
        kubernetes_validate.validate(document, VERSION, strict=True)
    except kubernetes_validate.ValidationError as error:
        raise Wrong(f"{'.'.join(map(str, error.path))}: {error.message}") from error


def check_containers(containers):
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "any"}, "spec": {"containers": containers}}
    check_kubernetes(pod)


def check_model(value, model, path):
    """Compares a value with a model of KServe, whose own reader drops fields that it does not know."""
    names = {field: name for name, field in model.attribute_map.items()}
    for field, item in value.items():
        if field not in names:
            raise Wrong(f"{path}: there is no field {field}; expected {', '.join(sorted(names))}")
        check_value(item, model.openapi_types[names[field]], f"{path}.{field}")
    model(**{names[field]: item for field, item in value.items()})


def check_value(value, kind, path):
    listed = re.fullmatch(r"list\[(.+)\]", kind)
    mapped = re.fullmatch(r"dict\((\w+), (\w+)\)", kind)
    if kind == "list[V1Container]":
        check_containers(value)
    elif listed:
        if not isinstance(value, list):
            raise Wrong(f"{path}: expected a list")
        for i, item in enumerate(value):
            check_value(item, listed[1], f"{path}[{i}]")
    elif mapped:
        for key, item in value.items():
            check_value(item, mapped[2], f"{path}.{key}")
    elif kind in ("str", "int", "bool", "float"):
        if type(value).__name__ != kind:
            raise Wrong(f"{path}: expected {kind}, got {value!r}")
    elif kind == "V1ObjectMeta":
        check_kubernetes({"apiVersion": "v1", "kind": "ConfigMap", "metadata": value})
    elif hasattr(kserve, kind):
        check_model(value, getattr(kserve, kind), path)
    else:
        raise Wrong(f"{path}: no check is known for {kind}")


def check(document):
    kind = f"{document['apiVersion']} {document['kind']}"
    if kind in KSERVE:
        check_model(document, KSERVE[kind], document["kind"])
    elif kind not in UNCHECKED:
        check_kubernetes(document)


documents = []
for file in sys.argv[1:]:
    with open(file) as stream:
        for document in yaml.safe_load_all(stream):
            try:
                check(document)
            except (Wrong, ValueError, kubernetes_validate.SchemaNotFoundError) as error:
                sys.exit(f"{file}: {document['kind']}: {getattr(error, 'message', error)}")
            documents.append(document)
print(json.dumps(documents))
