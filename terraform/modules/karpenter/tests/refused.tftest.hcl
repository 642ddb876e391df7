# Values that are refused at plan time. The text of the refusal is that of the validation in variables.tf.

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

run "cluster_name_with_a_space" {
  command = plan

  variables {
    eks_cluster_name = "my cluster"
  }

  expect_failures = [var.eks_cluster_name]
}

run "cluster_name_of_101_letters" {
  command = plan

  variables {
    eks_cluster_name = join("", [for i in range(101) : "a"])
  }

  expect_failures = [var.eks_cluster_name]
}

run "endpoint_without_scheme" {
  command = plan

  variables {
    eks_cluster_endpoint = "EXAMPLE.eks.amazonaws.com"
  }

  expect_failures = [var.eks_cluster_endpoint]
}

run "endpoint_with_a_path" {
  command = plan

  variables {
    eks_cluster_endpoint = "https://example.com/api"
  }

  expect_failures = [var.eks_cluster_endpoint]
}

run "zone_as_region" {
  command = plan

  variables {
    aws_region = "us-west-2a"
  }

  expect_failures = [var.aws_region]
}

run "empty_environment" {
  command = plan

  variables {
    environment = ""
  }

  expect_failures = [var.environment]
}

run "namespace_in_capitals" {
  command = plan

  variables {
    namespace = "Karpenter"
  }

  expect_failures = [var.namespace]
}

run "service_account_with_underscore" {
  command = plan

  variables {
    service_account_name = "node_autoscaler"
  }

  expect_failures = [var.service_account_name]
}

run "chart_version_with_v" {
  command = plan

  variables {
    helm_chart_version = "v0.1.0"
  }

  expect_failures = [var.helm_chart_version]
}

run "chart_version_range" {
  command = plan

  variables {
    helm_chart_version = ">= 0.1.0"
  }

  expect_failures = [var.helm_chart_version]
}

run "tag_of_the_controller" {
  command = plan

  variables {
    resource_tag = { "karpenter.sh/nodepool" = "x" }
  }

  expect_failures = [var.resource_tag]
}

run "tag_of_the_cluster" {
  command = plan

  variables {
    resource_tag = { "kubernetes.io/cluster/eks-cluster-dev" = "owned" }
  }

  expect_failures = [var.resource_tag]
}

run "auth_mode_in_capitals" {
  command = plan

  variables {
    auth_mode = "IRSA"
  }

  expect_failures = [var.auth_mode]
}

run "oidc_provider_as_url" {
  command = plan

  variables {
    oidc_provider_arn = "https://oidc.eks.us-west-2.amazonaws.com/id/EXAMPLE"
  }

  expect_failures = [var.oidc_provider_arn]
}

run "fifo_queue" {
  command = plan

  variables {
    queue_name = "interruptions.fifo"
  }

  expect_failures = [var.queue_name]
}

run "node_policy_by_name" {
  command = plan

  variables {
    node_iam_role_additional_policies = { cloudwatch = "CloudWatchAgentServerPolicy" }
  }

  expect_failures = [var.node_iam_role_additional_policies]
}

run "rule_prefix_with_a_space" {
  command = plan

  variables {
    rule_name_prefix = "My rules"
  }

  expect_failures = [var.rule_name_prefix]
}

run "no_replica" {
  command = plan

  variables {
    replicas = 0
  }

  expect_failures = [var.replicas]
}

run "half_a_replica" {
  command = plan

  variables {
    replicas = 1.5
  }

  expect_failures = [var.replicas]
}

run "values_that_are_no_mapping" {
  command = plan

  variables {
    helm_values = ["- a\n- b\n"]
  }

  expect_failures = [var.helm_values]
}

run "empty_repository" {
  command = plan

  variables {
    helm_repository = ""
  }

  expect_failures = [var.helm_repository]
}

run "alias_without_version" {
  command = plan

  variables {
    ami_alias = "al2023"
  }

  expect_failures = [var.ami_alias]
}

run "provider_name_in_capitals" {
  command = plan

  variables {
    karpenter_provider = [{ provider_name = "General" }]
  }

  expect_failures = [var.karpenter_provider]
}

run "two_providers_of_one_name" {
  command = plan

  variables {
    karpenter_provider = [{ provider_name = "general" }, { provider_name = "general" }]
  }

  expect_failures = [var.karpenter_provider]
}

run "capacity_type_in_capitals" {
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
