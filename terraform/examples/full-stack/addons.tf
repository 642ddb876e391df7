locals {
  addons = {
    "vpc-cni"                = var.addon_cni_version
    "kube-proxy"             = var.addon_kubeproxy_version
    "coredns"                = var.addon_coredns_version
    "eks-pod-identity-agent" = null # gives the controller its credentials
  }
}

resource "aws_eks_addon" "this" {
  for_each = local.addons

  cluster_name                = aws_eks_cluster.this.name
  addon_name                  = each.key
  addon_version               = each.value
  resolve_conflicts_on_create = "OVERWRITE"
  resolve_conflicts_on_update = "OVERWRITE"
  tags                        = var.tags

  depends_on = [aws_eks_node_group.this] # CoreDNS is not active before it has a node
}
