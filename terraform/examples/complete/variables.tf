variable "eks_cluster_name" {
  description = "Name of the cluster, which exists and has an IAM OIDC provider."
  type        = string
}

variable "aws_region" {
  description = "Region of the cluster."
  type        = string
}

variable "oidc_provider_arn" {
  description = "ARN of the cluster's IAM OIDC provider."
  type        = string
}

variable "helm_repository" {
  description = "Where the charts are; in a clone of the repository, ../../../charts."
  type        = string
  default     = "oci://ghcr.io/dovetail-sh/charts"
}
