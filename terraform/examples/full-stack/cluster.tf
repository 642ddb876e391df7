data "aws_region" "current" {}

data "aws_partition" "current" {}

data "aws_caller_identity" "current" {}

data "aws_subnets" "tagged" {
  count = length(var.subnet_ids) == 0 ? 1 : 0

  filter {
    name   = "tag:karpenter.sh/discovery"
    values = [var.cluster_name]
  }
}

locals {
  subnet_ids = length(var.subnet_ids) > 0 ? var.subnet_ids : flatten(data.aws_subnets.tagged[*].ids)
}

resource "aws_eks_cluster" "this" {
  name     = var.cluster_name
  version  = var.k8s_version
  role_arn = aws_iam_role.cluster.arn
  tags     = var.tags

  vpc_config {
    subnet_ids              = local.subnet_ids
    endpoint_private_access = true
    endpoint_public_access  = true
  }

  # The controller's module makes an access entry for nodes, and map_roles, map_users and map_accounts are in aws-auth.
  access_config {
    authentication_mode                         = "API_AND_CONFIG_MAP"
    bootstrap_cluster_creator_admin_permissions = true
  }

  lifecycle {
    precondition {
      condition     = length(local.subnet_ids) >= 2
      error_message = "EKS needs subnets in two zones or more, and there are ${length(local.subnet_ids)}: set subnet_ids, or tag subnets with karpenter.sh/discovery=${var.cluster_name}."
    }
  }

  depends_on = [aws_iam_role_policy_attachment.cluster]
}

# Lets IAM roles trust service accounts of the cluster. AWS knows the certificate of EKS, so no thumbprint is given.
resource "aws_iam_openid_connect_provider" "this" {
  url            = aws_eks_cluster.this.identity[0].oidc[0].issuer
  client_id_list = ["sts.amazonaws.com"]
  tags           = var.tags
}

# What nodes use is found by this tag.

resource "aws_ec2_tag" "subnet_discovery" {
  count = length(var.subnet_ids)

  resource_id = var.subnet_ids[count.index]
  key         = "karpenter.sh/discovery"
  value       = var.cluster_name
}

resource "aws_ec2_tag" "subnet_internal_elb" {
  count = var.private_subnets ? length(var.subnet_ids) : 0

  resource_id = var.subnet_ids[count.index]
  key         = "kubernetes.io/role/internal-elb"
  value       = "1"
}

resource "aws_ec2_tag" "security_group_discovery" {
  resource_id = aws_eks_cluster.this.vpc_config[0].cluster_security_group_id
  key         = "karpenter.sh/discovery"
  value       = var.cluster_name
}
