# kube-system is always there, and must outlive this module.
resource "kubectl_manifest" "namespace" {
  count = var.namespace == "kube-system" ? 0 : 1

  yaml_body = yamlencode({
    apiVersion = "v1"
    kind       = "Namespace"
    metadata   = { name = var.namespace }
  })
  wait = true # so that an apply right after a destroy does not find it terminating
}
