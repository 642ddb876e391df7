output "iam_role_arn" {
  description = "ARN of the controller's role."
  value       = module.karpenter.iam_role_arn
}

output "node_iam_role_name" {
  description = "Name of the nodes' role, for spec.role of an EC2NodeClass."
  value       = module.karpenter.node_iam_role_name
}

output "queue_name" {
  description = "Name of the interruption queue."
  value       = module.karpenter.queue_name
}
