locals {
  node_groups = { for group in var.node_groups : group.name => group }
}

resource "aws_launch_template" "node_group" {
  for_each = local.node_groups

  name = "${var.cluster_name}-${each.key}"
  # EKS adds its own part, with the endpoint of the cluster, the labels and the taints.
  user_data = base64encode(templatefile("${path.module}/user-data.tftpl", { shutdown_grace_period = "45s", shutdown_grace_period_critical_pods = "15s" }))
  tags      = var.tags

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1 # pods do not get the credentials of the node
  }

  tag_specifications {
    resource_type = "instance"
    tags          = merge({ Name = "${var.cluster_name}-${each.key}" }, var.tags)
  }
}

resource "aws_eks_node_group" "this" {
  for_each = local.node_groups

  cluster_name    = aws_eks_cluster.this.name
  node_group_name = each.key
  node_role_arn   = aws_iam_role.node_group.arn
  subnet_ids      = local.subnet_ids
  instance_types  = each.value.instance_types
  capacity_type   = each.value.capacity_type
  # The families with a g after the number, and a1, are ARM.
  ami_type = coalesce(each.value.ami_type, can(regex("^(a1|[a-z]+[0-9]+[a-z]*g[a-z]*)\\.", each.value.instance_types[0])) ? "AL2023_ARM_64_STANDARD" : "AL2023_x86_64_STANDARD")
  labels   = each.value.labels
  tags     = var.tags

  scaling_config {
    desired_size = each.value.desired_capacity
    max_size     = each.value.max_capacity
    min_size     = each.value.min_capacity
  }

  update_config {
    max_unavailable_percentage = each.value.max_unavailable_percentage
  }

  launch_template {
    id      = aws_launch_template.node_group[each.key].id
    version = aws_launch_template.node_group[each.key].latest_version
  }

  dynamic "taint" {
    for_each = each.value.taints
    content {
      key    = taint.value.key
      value  = taint.value.value
      effect = taint.value.effect
    }
  }

  lifecycle {
    ignore_changes = [scaling_config[0].desired_size] # it may be changed by hand, or by another autoscaler
  }

  depends_on = [aws_iam_role_policy_attachment.node_group]
}
