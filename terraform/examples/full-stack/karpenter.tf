# The release of the AMIs that EKS recommends now. Nodes change to a newer one when you apply, not when AWS publishes it.
data "aws_ssm_parameter" "ami_release" {
  name = "/aws/service/eks/optimized-ami/${var.k8s_version}/amazon-linux-2023/x86_64/standard/recommended/release_version"
}

locals {
  # The name of the cluster, taken from what has to be there before the controller and longer than it: nodes for it to run on, the
  # agent with its credentials, the tags. depends_on would say the same, but then Terraform could not look up the role for spot
  # before it applies, and the module could not plan.
  ready_cluster_name = distinct(concat(
    [for group in aws_eks_node_group.this : group.cluster_name],
    [for addon in aws_eks_addon.this : addon.cluster_name],
    aws_ec2_tag.subnet_discovery[*].value,
    [aws_ec2_tag.security_group_discovery.value],
  ))[0]
}

module "karpenter" {
  source = "../../modules/karpenter"

  eks_cluster_name     = local.ready_cluster_name
  eks_cluster_endpoint = aws_eks_cluster.this.endpoint
  aws_region           = data.aws_region.current.id
  namespace            = "kube-system"
  helm_repository      = var.helm_repository
  resource_tag         = var.tags
  replicas             = min(2, sum(var.node_groups[*].desired_capacity))

  ami_alias              = "al2023@v${element(split("-", data.aws_ssm_parameter.ami_release.insecure_value), 1)}"
  create_infra_node_pool = length(var.karpenter_provider) == 0
  create_app_node_pool   = length(var.karpenter_provider) == 0
  karpenter_provider     = var.karpenter_provider
}
