# Values that are refused at plan time. A run has one such value of every input that it sets, and all of them must be refused.

mock_provider "aws" {
  mock_data "aws_caller_identity" {
    defaults = { account_id = "111122223333" }
  }
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
  mock_data "aws_region" {
    defaults = { id = "us-west-2" }
  }
  mock_data "aws_iam_roles" {
    defaults = { arns = [], names = [] }
  }
}

mock_provider "helm" {}

mock_provider "kubectl" {}

mock_provider "time" {}

variables {
  eks_cluster_name     = "eks-cluster-dev"
  eks_cluster_endpoint = "https://EXAMPLE.gr7.us-west-2.eks.amazonaws.com"
  aws_region           = "us-west-2"
}

run "first_values" {
  command = plan

  variables {
    eks_cluster_name                  = "my cluster"
    eks_cluster_endpoint              = "EXAMPLE.eks.amazonaws.com"
    aws_region                        = "us-west-2a"
    environment                       = ""
    namespace                         = "Karpenter"
    service_account_name              = "node_autoscaler"
    helm_chart_version                = "v0.1.0"
    resource_tag                      = { "karpenter.sh/nodepool" = "x" }
    auth_mode                         = "IRSA"
    oidc_provider_arn                 = "https://oidc.eks.us-west-2.amazonaws.com/id/EXAMPLE"
    queue_name                        = "interruptions.fifo"
    node_iam_role_additional_policies = { cloudwatch = "CloudWatchAgentServerPolicy" }
    rule_name_prefix                  = "My rules"
    replicas                          = 0
    helm_values                       = ["- a\n- b\n"]
    helm_repository                   = ""
    ami_alias                         = "al2023"
    karpenter_provider                = [{ provider_name = "General" }]
  }

  expect_failures = [
    var.eks_cluster_name,
    var.eks_cluster_endpoint,
    var.aws_region,
    var.environment,
    var.namespace,
    var.service_account_name,
    var.helm_chart_version,
    var.resource_tag,
    var.auth_mode,
    var.oidc_provider_arn,
    var.queue_name,
    var.node_iam_role_additional_policies,
    var.rule_name_prefix,
    var.replicas,
    var.helm_values,
    var.helm_repository,
    var.ami_alias,
    var.karpenter_provider,
  ]
}

run "second_values" {
  command = plan

  variables {
    eks_cluster_name     = join("", [for i in range(101) : "a"])
    eks_cluster_endpoint = "https://example.com/api"
    helm_chart_version   = ">= 0.1.0"
    resource_tag         = { "kubernetes.io/cluster/eks-cluster-dev" = "owned" }
    replicas             = 1.5
    karpenter_provider   = [{ provider_name = "general" }, { provider_name = "general" }]
  }

  expect_failures = [
    var.eks_cluster_name,
    var.eks_cluster_endpoint,
    var.helm_chart_version,
    var.resource_tag,
    var.replicas,
    var.karpenter_provider,
  ]
}

run "unknown_capacity_type" {
  command = plan

  variables {
    karpenter_provider = [{ provider_name = "general", capacity_type = ["SPOT"] }]
  }

  expect_failures = [var.karpenter_provider]
}

run "negative_ttl" {
  command = plan

  variables {
    karpenter_provider = [{ provider_name = "general", ttl_nodes = -1 }]
  }

  expect_failures = [var.karpenter_provider]
}

run "limit_with_a_unit_of_its_own" {
  command = plan

  variables {
    karpenter_provider = [{ provider_name = "general", cpu_limit = "100 cores" }]
  }

  expect_failures = [var.karpenter_provider]
}

run "provider_name_of_a_pool_of_the_module" {
  command = plan

  variables {
    karpenter_provider = [{ provider_name = "app" }]
  }

  expect_failures = [kubectl_manifest.provider_node_pool]
}

run "irsa_without_oidc_provider" {
  command = plan

  variables {
    auth_mode = "irsa"
  }

  expect_failures = [aws_iam_role.controller]
}

run "another_region_than_the_provider" {
  command = plan

  variables {
    aws_region = "eu-central-1"
  }

  expect_failures = [aws_iam_role.controller]
}
