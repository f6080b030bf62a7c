"""Would the API server take an object? Kubernetes' own by their published schemas, custom resources by custom.schema.yaml."""

import jsonschema
import kubernetes_validate
import yaml

import charts

# The oldest with native sidecars, and the newest that the validator knows.
KUBERNETES = ["1.29", "1.37"]

CUSTOM = yaml.safe_load((charts.ROOT / "tests/deploy/custom.schema.yaml").read_text())
Refused = (jsonschema.ValidationError, kubernetes_validate.ValidationError)


def validate(doc, version):
    """Raises one of `Refused`, which names the field."""
    if doc["kind"] not in CUSTOM:
        kubernetes_validate.validate(doc, version, strict=True)
        return
    custom = CUSTOM[doc["kind"]]
    schema = {"type": "object", "required": ["apiVersion", "kind", "metadata", "spec"], "additionalProperties": False,
              "properties": {"apiVersion": {"const": custom["apiVersion"]}, "kind": {}, "metadata": {}, "spec": custom["spec"]}}
    jsonschema.validate(doc, schema)
    for own in kubernetes_parts(doc):
        kubernetes_validate.validate(own, version, strict=True)


def kubernetes_parts(doc):
    """The parts of a custom resource that are Kubernetes' own, as the objects that they are elsewhere."""
    metadata, spec = doc["metadata"], doc["spec"]
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    if "podTemplate" in spec:
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec["podTemplate"]["spec"]}
    for claim in spec.get("volumeClaimTemplates", []):
        yield {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": claim["spec"]}
    if "networkPolicy" in spec:
        yield {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata,
               "spec": {"podSelector": {}, **spec["networkPolicy"]}}
