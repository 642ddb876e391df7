# For the platform: ingress, monitoring, controllers. The taint is soft: other pods keep away while another pool fits.
resource "kubectl_manifest" "infra_node_pool" {
  count = var.create_infra_node_pool ? 1 : 0

  yaml_body = yamlencode({
    apiVersion = "karpenter.sh/v1"
    kind       = "NodePool"
    metadata   = { name = "infra" }
    spec = {
      template = {
        metadata = { labels = { "node-type" = "infrastructure", "workload-type" = "platform" } }
        spec = {
          nodeClassRef = local.node_class_ref
          requirements = [
            { key = "karpenter.sh/capacity-type", operator = "In", values = ["on-demand"] },
            { key = "node.kubernetes.io/instance-type", operator = "In", values = ["t3.medium", "t3.large", "t3.xlarge"] },
          ]
          taints      = [{ key = "workload-type", value = "infrastructure", effect = "PreferNoSchedule" }]
          expireAfter = "720h"
        }
      }
      limits     = { cpu = "20", memory = "80Gi" }
      disruption = { consolidationPolicy = "WhenEmptyOrUnderutilized", consolidateAfter = "5m" }
    }
  })
  wait = true # until its NodeClaims are gone

  depends_on = [kubectl_manifest.node_class]
}
