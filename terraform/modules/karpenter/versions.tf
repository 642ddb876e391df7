terraform {
  required_version = ">= 1.3.3"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.95"
    }
    helm = {
      source  = "hashicorp/helm"
      version = ">= 2.12"
    }
    # Not hashicorp/kubernetes: its kubernetes_manifest cannot plan an EC2NodeClass before the CRD is installed.
    kubectl = {
      source  = "gavinbunney/kubectl"
      version = ">= 1.14"
    }
    time = {
      source  = "hashicorp/time"
      version = ">= 0.9"
    }
  }
}
