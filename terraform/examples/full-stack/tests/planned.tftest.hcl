# What the example makes of its inputs, without AWS.

mock_provider "aws" {
  mock_data "aws_caller_identity" {
    defaults = { account_id = "111122223333" }
  }
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
  mock_data "aws_region" {
    defaults = { id = "us-east-1" }
  }
  mock_data "aws_iam_roles" {
    defaults = { arns = [], names = [] }
  }
  mock_data "aws_iam_policy_document" {
    defaults = { json = "{}" }
  }
  mock_data "aws_ssm_parameter" {
    defaults = { insecure_value = "1.34.2-20260301" }
  }
  mock_data "aws_subnets" {
    defaults = { ids = ["subnet-1", "subnet-2", "subnet-3"] }
  }
  mock_data "aws_vpc" {
    defaults = { cidr_block = "10.0.0.0/16" }
  }
  mock_resource "aws_eks_cluster" {
    defaults = {
      endpoint              = "https://EXAMPLE.gr7.us-east-1.eks.amazonaws.com"
      certificate_authority = [{ data = "Y2VydGlmaWNhdGU=" }]
      identity              = [{ oidc = [{ issuer = "https://oidc.eks.us-east-1.amazonaws.com/id/EXAMPLE" }] }]
    }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::111122223333:role/example" }
  }
  mock_resource "aws_iam_policy" {
    defaults = { arn = "arn:aws:iam::111122223333:policy/example" }
  }
  mock_resource "aws_iam_openid_connect_provider" {
    defaults = { arn = "arn:aws:iam::111122223333:oidc-provider/oidc.eks.us-east-1.amazonaws.com/id/EXAMPLE" }
  }
  mock_resource "aws_sqs_queue" {
    defaults = { arn = "arn:aws:sqs:us-east-1:111122223333:example" }
  }
  mock_resource "aws_launch_template" {
    defaults = { id = "lt-0123456789abcdef0", latest_version = 1 }
  }
}

mock_provider "helm" {}

mock_provider "kubectl" {}

mock_provider "time" {}

variables {
  k8s_version = "1.34"
}

run "bootstrap_node_group_s159" {
  command = plan

  assert {
    condition     = keys(aws_eks_node_group.this) == ["bootstrap"] && aws_eks_node_group.this["bootstrap"].cluster_name == "backend"
    error_message = "one group"
  }
  assert {
    condition     = aws_eks_node_group.this["bootstrap"].instance_types == tolist(["t4g.medium"]) && aws_eks_node_group.this["bootstrap"].capacity_type == "ON_DEMAND" && aws_eks_node_group.this["bootstrap"].ami_type == "AL2023_ARM_64_STANDARD"
    error_message = "instances"
  }
  assert {
    condition     = aws_eks_node_group.this["bootstrap"].scaling_config[0].min_size == 2 && aws_eks_node_group.this["bootstrap"].scaling_config[0].desired_size == 2 && aws_eks_node_group.this["bootstrap"].scaling_config[0].max_size == 3
    error_message = "size"
  }
  assert {
    condition     = [for taint in aws_eks_node_group.this["bootstrap"].taint : "${taint.key}=${taint.value}:${taint.effect}"] == ["CriticalAddonsOnly=true:NO_SCHEDULE"]
    error_message = "taint"
  }
}

run "made_by_default_s165" {
  command = plan

  assert {
    condition     = keys(aws_eks_addon.this) == ["coredns", "eks-pod-identity-agent", "kube-proxy", "vpc-cni"]
    error_message = "add-ons"
  }
  assert {
    condition     = aws_eks_cluster.this.version == "1.34" && aws_eks_cluster.this.vpc_config[0].subnet_ids == toset(["subnet-1", "subnet-2", "subnet-3"])
    error_message = "cluster, in the subnets with the tag"
  }
  assert {
    condition     = length(aws_ec2_tag.subnet_discovery) == 0 && aws_ec2_tag.security_group_discovery.key == "karpenter.sh/discovery" && aws_ec2_tag.security_group_discovery.value == "backend"
    error_message = "discovery tags"
  }
  assert {
    condition     = contains(aws_iam_openid_connect_provider.this.client_id_list, "sts.amazonaws.com")
    error_message = "OIDC provider"
  }
  assert {
    condition     = aws_iam_policy.console.name == "backend-console"
    error_message = "policy for the console"
  }
  assert {
    condition     = strcontains(base64decode(aws_launch_template.node_group["bootstrap"].user_data), "kind: NodeConfig")
    error_message = "launch template with user data"
  }
  assert {
    condition     = length(helm_release.neighbour) == 0 && length(kubectl_manifest.aws_auth) == 0 && length(kubectl_manifest.service_account) == 0
    error_message = "nothing that was not asked for"
  }
}

run "ports_s166" {
  command = plan

  assert {
    condition = toset([for rule in aws_vpc_security_group_ingress_rule.nodes : "${rule.ip_protocol} ${rule.from_port}-${rule.to_port}"]) == toset([
      "tcp 30000-32767", "udp 30000-32767", "tcp 443-443", "tcp 53-53", "udp 53-53", "tcp 80-80", "tcp 8080-8080",
    ])
    error_message = "ports"
  }
}

run "named_subnets_and_groups_s163" {
  command = plan

  variables {
    cluster_name = "shop"
    subnet_ids   = ["subnet-a", "subnet-b"]
    tags         = { Team = "shop" }
    node_groups = [{
      name                       = "system"
      labels                     = { role = "system" }
      instance_types             = ["m6i.large", "m7i.large"]
      capacity_type              = "SPOT"
      max_unavailable_percentage = 25
      desired_capacity           = 1
      max_capacity               = 2
      min_capacity               = 1
    }]
    addon_cni_version       = "v1.12.0-eksbuild.1"
    addon_coredns_version   = "v1.8.7-eksbuild.3"
    addon_kubeproxy_version = "v1.23.8-eksbuild.2"
  }

  assert {
    condition     = aws_ec2_tag.subnet_discovery[*].resource_id == ["subnet-a", "subnet-b"] && aws_ec2_tag.subnet_internal_elb[1].key == "kubernetes.io/role/internal-elb"
    error_message = "tags of subnets"
  }
  assert {
    condition     = aws_eks_node_group.this["system"].ami_type == "AL2023_x86_64_STANDARD" && aws_eks_node_group.this["system"].update_config[0].max_unavailable_percentage == 25 && aws_eks_node_group.this["system"].labels == tomap({ role = "system" })
    error_message = "node group"
  }
  assert {
    condition     = aws_eks_addon.this["vpc-cni"].addon_version == "v1.12.0-eksbuild.1" && aws_eks_addon.this["coredns"].addon_version == "v1.8.7-eksbuild.3" && aws_eks_addon.this["kube-proxy"].addon_version == "v1.23.8-eksbuild.2"
    error_message = "versions of add-ons"
  }
  assert {
    condition     = aws_eks_cluster.this.tags == tomap({ Team = "shop" }) && aws_eks_cluster.this.name == "shop"
    error_message = "cluster"
  }
}

run "outputs_s164" {
  variables {
    service_account = [{ name = "reports", namespace = "shop" }]
    map_roles       = [{ rolearn = "arn:aws:iam::111122223333:role/admins", username = "admin", groups = ["system:masters"] }]
    map_users       = [{ userarn = "arn:aws:iam::111122223333:user/ann", username = "ann", groups = ["developers"] }]
    map_accounts    = ["444455556666"]
    karpenter_provider = [{
      provider_name     = "general"
      capacity_type     = ["spot"]
      ttl_scaling_empty = 30
    }]
  }

  assert {
    condition     = output.endpoint == "https://EXAMPLE.gr7.us-east-1.eks.amazonaws.com" && output.kubeconfig-certificate-authority-data == "Y2VydGlmaWNhdGU=" && output.oidc_cluster_url == "https://oidc.eks.us-east-1.amazonaws.com/id/EXAMPLE"
    error_message = "outputs"
  }
  assert {
    condition     = output.karpenter.queue_name == "Karpenter-backend" && output.karpenter.node_iam_role_name == "KarpenterNodeRole-backend"
    error_message = "outputs of the module"
  }
  assert {
    condition     = yamldecode(kubectl_manifest.service_account["shop/reports"].yaml_body).metadata.annotations == { "eks.amazonaws.com/role-arn" = output.service_account_role_arns["shop/reports"] }
    error_message = "service accounts, S-168"
  }
  assert {
    condition     = length(yamldecode(yamldecode(kubectl_manifest.aws_auth[0].yaml_body).data.mapRoles)) == 2 && yamldecode(yamldecode(kubectl_manifest.aws_auth[0].yaml_body).data.mapAccounts) == ["444455556666"] && yamldecode(yamldecode(kubectl_manifest.aws_auth[0].yaml_body).data.mapUsers)[0].username == "ann"
    error_message = "aws-auth, S-168"
  }
}

run "neighbours_s167" {
  command = plan

  variables {
    neighbours = ["metrics-server", "kube-state-metrics", "keda", "vpa", "kube-ops-view"]
  }

  assert {
    condition     = keys(helm_release.neighbour) == ["keda", "kube-ops-view", "kube-state-metrics", "metrics-server", "vpa"]
    error_message = "releases"
  }
}

run "termination_handler_is_left_out" {
  command = plan

  variables {
    neighbours = ["aws-node-termination-handler"]
  }

  expect_failures = [var.neighbours]
}

run "one_subnet_is_too_few" {
  command = plan

  variables {
    subnet_ids = ["subnet-a"]
  }

  expect_failures = [aws_eks_cluster.this]
}

run "no_group_for_the_controller" {
  command = plan

  variables {
    node_groups = []
  }

  expect_failures = [var.node_groups]
}

run "version_with_a_v" {
  command = plan

  variables {
    k8s_version = "v1.34"
  }

  expect_failures = [var.k8s_version]
}
