# The cluster

data "aws_iam_policy_document" "cluster_trust" {
  statement {
    actions = ["sts:AssumeRole", "sts:TagSession"]
    principals {
      type        = "Service"
      identifiers = ["eks.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "cluster" {
  name               = "${var.cluster_name}-cluster"
  assume_role_policy = data.aws_iam_policy_document.cluster_trust.json
  tags               = var.tags
}

resource "aws_iam_role_policy_attachment" "cluster" {
  role       = aws_iam_role.cluster.name
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/AmazonEKSClusterPolicy"
}

# Node groups

data "aws_iam_policy_document" "node_group_trust" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["ec2.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "node_group" {
  name               = "${var.cluster_name}-node-group"
  assume_role_policy = data.aws_iam_policy_document.node_group_trust.json
  tags               = var.tags
}

resource "aws_iam_role_policy_attachment" "node_group" {
  for_each = toset(["AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryReadOnly", "AmazonSSMManagedInstanceCore"])

  role       = aws_iam_role.node_group.name
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/${each.value}"
}

# Looking at the cluster in the console: attach this policy to those who may, and map them with map_roles or map_users.

data "aws_iam_policy_document" "console" {
  statement {
    sid       = "ViewClusters"
    actions   = ["eks:AccessKubernetesApi", "eks:Describe*", "eks:List*"]
    resources = ["arn:${data.aws_partition.current.partition}:eks:${data.aws_region.current.id}:${data.aws_caller_identity.current.account_id}:*/${var.cluster_name}*"]
  }
  statement {
    sid       = "ListClusters"
    actions   = ["eks:ListClusters"]
    resources = ["*"]
  }
}

resource "aws_iam_policy" "console" {
  name   = "${var.cluster_name}-console"
  policy = data.aws_iam_policy_document.console.json
  tags   = var.tags
}

# Service accounts

locals {
  service_accounts = { for account in var.service_account : "${account.namespace}/${account.name}" => account }
  oidc_issuer      = trimprefix(aws_eks_cluster.this.identity[0].oidc[0].issuer, "https://")
}

data "aws_iam_policy_document" "service_account_trust" {
  for_each = local.service_accounts

  statement {
    actions = ["sts:AssumeRoleWithWebIdentity"]
    principals {
      type        = "Federated"
      identifiers = [aws_iam_openid_connect_provider.this.arn]
    }
    condition {
      test     = "StringEquals"
      variable = "${local.oidc_issuer}:aud"
      values   = ["sts.amazonaws.com"]
    }
    condition {
      test     = "StringEquals"
      variable = "${local.oidc_issuer}:sub"
      values   = ["system:serviceaccount:${each.value.namespace}:${each.value.name}"]
    }
  }
}

resource "aws_iam_role" "service_account" {
  for_each = local.service_accounts

  name               = "${var.cluster_name}-${each.value.namespace}-${each.value.name}"
  assume_role_policy = data.aws_iam_policy_document.service_account_trust[each.key].json
  tags               = var.tags
}

resource "kubectl_manifest" "service_account" {
  for_each = local.service_accounts

  yaml_body = yamlencode({
    apiVersion = "v1"
    kind       = "ServiceAccount"
    metadata = {
      name        = each.value.name
      namespace   = each.value.namespace
      annotations = { "eks.amazonaws.com/role-arn" = aws_iam_role.service_account[each.key].arn }
    }
  })
}

# Who may use the cluster, beside the one who makes it. The node group is in it for clusters that came here from CONFIG_MAP.
resource "kubectl_manifest" "aws_auth" {
  count = length(var.map_roles) + length(var.map_users) + length(var.map_accounts) > 0 ? 1 : 0

  yaml_body = yamlencode({
    apiVersion = "v1"
    kind       = "ConfigMap"
    metadata   = { name = "aws-auth", namespace = "kube-system" }
    data = {
      mapRoles = yamlencode(concat(
        [{ rolearn = aws_iam_role.node_group.arn, username = "system:node:{{EC2PrivateDNSName}}", groups = ["system:bootstrappers", "system:nodes"] }],
        var.map_roles,
      ))
      mapUsers    = yamlencode(var.map_users)
      mapAccounts = yamlencode(var.map_accounts)
    }
  })
}
