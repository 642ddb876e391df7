# NodePools from the list that set-ups with Provisioners have. What an entry leaves out is what a Provisioner did without it.
resource "kubectl_manifest" "provider_node_pool" {
  for_each = { for provider in var.karpenter_provider : provider.provider_name => provider }

  yaml_body = yamlencode({
    apiVersion = "karpenter.sh/v1"
    kind       = "NodePool"
    metadata   = { name = each.key }
    spec = {
      template = {
        spec = {
          nodeClassRef = local.node_class_ref
          requirements = [
            for requirement in [
              { key = "karpenter.sh/capacity-type", operator = "In", values = each.value.capacity_type },
              { key = "karpenter.k8s.aws/instance-family", operator = "In", values = each.value.instance_family },
              { key = "karpenter.k8s.aws/instance-size", operator = "In", values = each.value.instance_sizes },
              { key = "topology.kubernetes.io/zone", operator = "In", values = each.value.availability_zones },
            ] : requirement if length(requirement.values) > 0
          ]
          expireAfter = each.value.ttl_nodes == null ? "Never" : "${each.value.ttl_nodes}s"
        }
      }
      limits = { for resource, limit in { cpu = each.value.cpu_limit, memory = each.value.memory_limit } : resource => limit if limit != null }
      disruption = {
        consolidationPolicy = "WhenEmpty"
        consolidateAfter    = each.value.ttl_scaling_empty == null ? "Never" : "${each.value.ttl_scaling_empty}s"
      }
    }
  })
  wait = true # until its NodeClaims are gone

  lifecycle {
    precondition {
      condition     = !(each.key == "infra" && var.create_infra_node_pool || each.key == "app" && var.create_app_node_pool)
      error_message = "An entry of karpenter_provider is called \"${each.key}\", which is a NodePool of this module: give it another provider_name, or set create_${each.key}_node_pool = false."
    }
  }

  depends_on = [kubectl_manifest.node_class, time_sleep.spot_role]
}
