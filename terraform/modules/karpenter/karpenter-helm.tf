locals {
  charts_in_repository = can(regex("^(oci|https)://", var.helm_repository))
  chart_location       = local.charts_in_repository ? "" : "${trimsuffix(var.helm_repository, "/")}/"
}

# The CRDs have a chart of their own, since Helm upgrades only what is in templates. They stay when the release is deleted.
resource "helm_release" "crd" {
  name       = "karpenter-crd"
  namespace  = var.namespace
  repository = local.charts_in_repository ? var.helm_repository : null
  chart      = "${local.chart_location}karpenter-crd"
  version    = local.charts_in_repository ? var.helm_chart_version : null

  depends_on = [kubectl_manifest.namespace]
}

resource "helm_release" "controller" {
  name       = "karpenter"
  namespace  = var.namespace
  repository = local.charts_in_repository ? var.helm_repository : null
  chart      = "${local.chart_location}karpenter"
  version    = local.charts_in_repository ? var.helm_chart_version : null
  skip_crds  = true # they are those of the other release
  wait       = true
  timeout    = 600

  values = concat([yamlencode({
    replicas = var.replicas
    serviceAccount = {
      name        = var.service_account_name
      annotations = var.auth_mode == "irsa" ? { "eks.amazonaws.com/role-arn" = aws_iam_role.controller.arn } : {}
    }
    settings = {
      clusterName       = var.eks_cluster_name
      clusterEndpoint   = var.eks_cluster_endpoint
      interruptionQueue = var.enable_spot_termination ? aws_sqs_queue.interruption[0].name : ""
    }
    controller = { resources = { requests = { cpu = "1", memory = "1Gi" } } }
  })], var.helm_values)

  # Pods get credentials at their start or never, so the association comes first. What the controller needs to terminate nodes
  # outlives it: Terraform destroys in the reverse order.
  depends_on = [
    helm_release.crd,
    aws_eks_pod_identity_association.controller,
    aws_iam_role_policy_attachment.controller,
    aws_iam_role_policy_attachment.node,
    aws_iam_role_policy_attachment.node_additional,
    aws_iam_instance_profile.node,
    aws_eks_access_entry.node,
    aws_sqs_queue_policy.interruption,
    aws_cloudwatch_event_target.interruption,
  ]
}
