# Everything that is often changed: IRSA, a namespace, a service account and tags of your own, a version, values of the chart,
# policies for nodes, and NodePools from a list.
module "karpenter" {
  source = "../../modules/karpenter"

  eks_cluster_name     = var.eks_cluster_name
  eks_cluster_endpoint = data.aws_eks_cluster.this.endpoint
  aws_region           = var.aws_region
  environment          = "production"

  namespace            = "node-autoscaling"
  service_account_name = "node-autoscaler"
  helm_repository      = var.helm_repository
  helm_chart_version   = "0.1.0"

  auth_mode         = "irsa"
  oidc_provider_arn = var.oidc_provider_arn

  queue_name       = "${var.eks_cluster_name}-interruptions"
  rule_name_prefix = "Karpenter"

  node_iam_role_additional_policies = {
    ebs = "arn:aws:iam::aws:policy/service-role/AmazonEBSCSIDriverPolicy"
  }

  # The infra pool stays; this list takes the place of the app pool.
  create_app_node_pool = false
  karpenter_provider = [
    {
      provider_name      = "general"
      capacity_type      = ["spot", "on-demand"]
      instance_family    = ["m6i", "m7i", "c6i", "c7i"]
      instance_sizes     = ["large", "xlarge", "2xlarge"]
      availability_zones = ["${var.aws_region}a", "${var.aws_region}b"]
      cpu_limit          = "200"
      memory_limit       = "800Gi"
      ttl_scaling_empty  = 60
      ttl_nodes          = 2592000
    },
  ]

  helm_values = [yamlencode({
    logLevel   = "debug"
    controller = { resources = { limits = { cpu = "1", memory = "1Gi" } } }
    settings   = { featureGates = { spotToSpotConsolidation = true } }
  })]

  resource_tag = {
    ManagedBy = "Terraform"
    Team      = "platform"
  }
}
