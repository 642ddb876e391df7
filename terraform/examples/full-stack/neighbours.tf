# Off by default. There is no node termination handler: the controller reads the interruption queue itself, and two that drain
# the same nodes disturb each other.
locals {
  neighbours = {
    "metrics-server"     = { namespace = "kube-system", repository = "https://kubernetes-sigs.github.io/metrics-server/" }
    "kube-state-metrics" = { namespace = "monitoring", repository = "https://prometheus-community.github.io/helm-charts" }
    "keda"               = { namespace = "keda", repository = "https://kedacore.github.io/charts" }
    "vpa"                = { namespace = "vpa", repository = "https://charts.fairwinds.com/stable" }
    "kube-ops-view"      = { namespace = "kube-ops-view", repository = "https://charts.christianhuth.de" }
  }
}

resource "helm_release" "neighbour" {
  for_each = { for name, neighbour in local.neighbours : name => neighbour if contains(var.neighbours, name) }

  name             = each.key
  namespace        = each.value.namespace
  create_namespace = true
  repository       = each.value.repository
  chart            = each.key

  depends_on = [module.karpenter] # which makes the nodes that they run on
}
