# What the controller and its nodes need in AWS. The policies are copies of the documents in iam/ of the repository.

data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

data "aws_region" "current" {}

locals {
  tags = merge({ Environment = var.environment }, var.resource_tag)

  event_rules = {
    ScheduledChange                 = "scheduled-change.json"
    SpotInterruption                = "spot-interruption.json"
    Rebalance                       = "rebalance.json"
    InstanceStateChange             = "instance-state-change.json"
    CapacityReservationInterruption = "capacity-reservation-interruption.json"
  }
  controller_policies = {
    KarpenterControllerNodeLifecyclePolicy     = "node-lifecycle.json"
    KarpenterControllerIAMIntegrationPolicy    = "iam-integration.json"
    KarpenterControllerEKSIntegrationPolicy    = "eks-integration.json"
    KarpenterControllerInterruptionPolicy      = "interruption.json"
    KarpenterControllerZonalShiftPolicy        = "zonal-shift.json"
    KarpenterControllerResourceDiscoveryPolicy = "resource-discovery.json"
  }

  wanted_names = merge(
    {
      controller_role  = { name = "KarpenterControllerRole-${var.eks_cluster_name}", limit = 64 }
      node_role        = { name = "KarpenterNodeRole-${var.eks_cluster_name}", limit = 64 }
      instance_profile = { name = "KarpenterNodeInstanceProfile-${var.eks_cluster_name}", limit = 128 }
      queue            = { name = coalesce(var.queue_name, "Karpenter-${var.eks_cluster_name}"), limit = 80 }
    },
    { for rule in keys(local.event_rules) : rule => { name = "${var.rule_name_prefix}${rule}-${var.eks_cluster_name}", limit = 64 } },
    { for policy in keys(local.controller_policies) : policy => { name = "${policy}-${var.eks_cluster_name}", limit = 128 } },
  )
  # A name that is longer than AWS allows ends in a hash, so that two clusters with long names do not share it.
  names = {
    for key, wanted in local.wanted_names :
    key => length(wanted.name) <= wanted.limit ? wanted.name : "${substr(wanted.name, 0, wanted.limit - 9)}-${substr(sha1(wanted.name), 0, 8)}"
  }

  # What the placeholders of the documents stand for.
  document_values = {
    partition       = data.aws_partition.current.partition
    region          = var.aws_region
    account_id      = data.aws_caller_identity.current.account_id
    cluster_name    = var.eks_cluster_name
    node_role_name  = local.names.node_role
    queue_name      = local.names.queue
    oidc_provider   = try(regex("oidc-provider/(.+)$", var.oidc_provider_arn)[0], "")
    namespace       = var.namespace
    service_account = var.service_account_name
  }
}

# The controller's role

resource "aws_iam_role" "controller" {
  name               = local.names.controller_role
  description        = "Dovetail in the cluster ${var.eks_cluster_name}"
  assume_role_policy = templatefile("${path.module}/policies/trust/controller-${var.auth_mode}.json", local.document_values)
  tags               = local.tags

  lifecycle {
    precondition {
      condition     = var.auth_mode != "irsa" || var.oidc_provider_arn != null
      error_message = "With auth_mode = \"irsa\" the controller's role trusts the cluster's IAM OIDC provider, and oidc_provider_arn is not set: set it (aws iam list-open-id-connect-providers shows those of the account), or use auth_mode = \"pod-identity\"."
    }
    precondition {
      condition     = data.aws_region.current.id == var.aws_region
      error_message = "The value of aws_region is \"${var.aws_region}\", but the AWS provider works in \"${data.aws_region.current.id}\": make them the same."
    }
  }
}

resource "aws_iam_policy" "controller" {
  # Without a queue there is nothing that the policy about it could name.
  for_each = { for policy, document in local.controller_policies : policy => document if var.enable_spot_termination || document != "interruption.json" }

  name        = local.names[each.key]
  description = "Dovetail in the cluster ${var.eks_cluster_name}"
  policy      = templatefile("${path.module}/policies/${each.value}", local.document_values)
  tags        = local.tags
}

resource "aws_iam_role_policy_attachment" "controller" {
  for_each = aws_iam_policy.controller

  role       = aws_iam_role.controller.name
  policy_arn = each.value.arn
}

resource "aws_eks_pod_identity_association" "controller" {
  count = var.auth_mode == "pod-identity" ? 1 : 0

  cluster_name    = var.eks_cluster_name
  namespace       = var.namespace
  service_account = var.service_account_name
  role_arn        = aws_iam_role.controller.arn
  tags            = local.tags
}

# The nodes' role

resource "aws_iam_role" "node" {
  name               = local.names.node_role
  description        = "Nodes of Dovetail in the cluster ${var.eks_cluster_name}"
  assume_role_policy = file("${path.module}/policies/trust/node.json")
  tags               = local.tags
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each = toset(compact(split("\n", file("${path.module}/policies/managed-policies.txt"))))

  role       = aws_iam_role.node.name
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/${each.value}"
}

resource "aws_iam_role_policy_attachment" "node_additional" {
  for_each = var.node_iam_role_additional_policies

  role       = aws_iam_role.node.name
  policy_arn = each.value
}

resource "aws_iam_instance_profile" "node" {
  count = var.create_instance_profile ? 1 : 0

  name = local.names.instance_profile
  role = aws_iam_role.node.name
  tags = local.tags
}

resource "aws_eks_access_entry" "node" {
  count = var.create_access_entry ? 1 : 0

  cluster_name  = var.eks_cluster_name
  principal_arn = aws_iam_role.node.arn
  type          = "EC2_LINUX"
  tags          = local.tags
}

# The interruption queue, and what is sent there

resource "aws_sqs_queue" "interruption" {
  count = var.enable_spot_termination ? 1 : 0

  name                      = local.names.queue
  message_retention_seconds = 300
  # SQS takes one kind of encryption or the other.
  sqs_managed_sse_enabled = var.queue_kms_master_key_id == null ? true : null
  kms_master_key_id       = var.queue_kms_master_key_id
  tags                    = local.tags
}

resource "aws_sqs_queue_policy" "interruption" {
  count = var.enable_spot_termination ? 1 : 0

  queue_url = aws_sqs_queue.interruption[0].url
  policy    = templatefile("${path.module}/policies/queue-policy.json", local.document_values)
}

resource "aws_cloudwatch_event_rule" "interruption" {
  for_each = var.enable_spot_termination ? local.event_rules : {}

  name          = local.names[each.key]
  description   = "Interruptions of nodes, for Dovetail in the cluster ${var.eks_cluster_name}"
  event_pattern = file("${path.module}/policies/event-rules/${each.value}")
  tags          = local.tags
}

resource "aws_cloudwatch_event_target" "interruption" {
  for_each = aws_cloudwatch_event_rule.interruption

  rule      = each.value.name
  target_id = "KarpenterInterruptionQueueTarget"
  arn       = aws_sqs_queue.interruption[0].arn
}
