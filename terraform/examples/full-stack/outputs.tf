output "endpoint" {
  description = "URL of the API server."
  value       = aws_eks_cluster.this.endpoint
}

output "kubeconfig-certificate-authority-data" {
  description = "Certificate authority of the API server, base64."
  value       = aws_eks_cluster.this.certificate_authority[0].data
}

output "oidc_cluster_url" {
  description = "Issuer of the tokens of service accounts."
  value       = aws_eks_cluster.this.identity[0].oidc[0].issuer
}

output "service_account_role_arns" {
  description = "ARNs of the roles of service_account, by namespace/name."
  value       = { for account, role in aws_iam_role.service_account : account => role.arn }
}

output "karpenter" {
  description = "Outputs of the controller's module."
  value       = module.karpenter
}
