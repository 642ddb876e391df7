output "iam_role_arn" {
  description = "ARN of the controller's role."
  value       = aws_iam_role.controller.arn
}

output "node_iam_role_arn" {
  description = "ARN of the nodes' role."
  value       = aws_iam_role.node.arn
}

output "node_iam_role_name" {
  description = "Name of the nodes' role, for spec.role of an EC2NodeClass."
  value       = aws_iam_role.node.name
}

output "instance_profile_name" {
  description = "Name of the nodes' instance profile; null without create_instance_profile."
  value       = one(aws_iam_instance_profile.node[*].name)
}

output "queue_name" {
  description = "Name of the interruption queue; null without enable_spot_termination."
  value       = one(aws_sqs_queue.interruption[*].name)
}

output "queue_url" {
  description = "URL of the interruption queue; null without enable_spot_termination."
  value       = one(aws_sqs_queue.interruption[*].url)
}

output "queue_arn" {
  description = "ARN of the interruption queue; null without enable_spot_termination."
  value       = one(aws_sqs_queue.interruption[*].arn)
}

output "event_rules" {
  description = "Names of the EventBridge rules, by what they are for."
  value       = { for purpose, rule in aws_cloudwatch_event_rule.interruption : purpose => rule.name }
}

output "node_access_entry_arn" {
  description = "ARN of the access entry of the nodes' role; null without create_access_entry."
  value       = one(aws_eks_access_entry.node[*].access_entry_arn)
}

output "spot_service_linked_role_arn" {
  description = "ARN of AWSServiceRoleForEC2Spot; null without create_spot_service_linked_role."
  value       = one(flatten([for found in data.aws_iam_roles.spot : tolist(found.arns)]))
}
