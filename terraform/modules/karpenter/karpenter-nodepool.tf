locals {
  node_class_ref = { group = "karpenter.k8s.aws", kind = "EC2NodeClass", name = "default" }
  discovery_tag  = { "karpenter.sh/discovery" = var.eks_cluster_name }
}

# Subnets and security groups that carry the discovery tag are taken.
resource "kubectl_manifest" "node_class" {
  yaml_body = yamlencode({
    apiVersion = "karpenter.k8s.aws/v1"
    kind       = "EC2NodeClass"
    metadata   = { name = local.node_class_ref.name }
    spec = {
      role                       = aws_iam_role.node.name
      amiSelectorTerms           = [{ alias = var.ami_alias }]
      subnetSelectorTerms        = [{ tags = local.discovery_tag }]
      securityGroupSelectorTerms = [{ tags = local.discovery_tag }]
      tags                       = merge(local.tags, local.discovery_tag)
    }
  })
  # The class is gone when its last NodeClaim is. Until then the controller and its role have to stay.
  wait = true

  depends_on = [helm_release.controller]
}
