# The controller with its defaults, in a cluster that exists. Its subnets and security group carry the tag karpenter.sh/discovery.
module "karpenter" {
  source = "../../modules/karpenter"

  eks_cluster_name     = var.eks_cluster_name
  eks_cluster_endpoint = data.aws_eks_cluster.this.endpoint
  aws_region           = var.aws_region
  environment          = "dev"
  resource_tag         = { ManagedBy = "Terraform" }
  helm_repository      = var.helm_repository
}
