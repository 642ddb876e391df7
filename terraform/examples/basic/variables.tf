variable "eks_cluster_name" {
  description = "Name of the cluster, which exists and runs the add-on eks-pod-identity-agent."
  type        = string
}

variable "aws_region" {
  description = "Region of the cluster."
  type        = string
}

variable "helm_repository" {
  description = "Where the charts are; in a clone of the repository, ../../../charts."
  type        = string
  default     = "oci://ghcr.io/dovetail-sh/charts"
}
