# For applications of the business: spot where there is some, on-demand where there is not.
resource "kubectl_manifest" "app_node_pool" {
  count = var.create_app_node_pool ? 1 : 0

  yaml_body = yamlencode({
    apiVersion = "karpenter.sh/v1"
    kind       = "NodePool"
    metadata   = { name = "app" }
    spec = {
      template = {
        metadata = { labels = { "node-type" = "application", "workload-type" = "business" } }
        spec = {
          nodeClassRef = local.node_class_ref
          requirements = [
            { key = "karpenter.sh/capacity-type", operator = "In", values = ["spot", "on-demand"] },
            { key = "node.kubernetes.io/instance-type", operator = "In", values = ["t3.medium", "t3.large"] },
          ]
          expireAfter = "720h"
        }
      }
      limits     = { cpu = "100", memory = "400Gi" }
      disruption = { consolidationPolicy = "WhenEmptyOrUnderutilized", consolidateAfter = "1m" }
    }
  })
  wait = true # until its NodeClaims are gone

  depends_on = [kubectl_manifest.node_class, time_sleep.spot_role]
}
