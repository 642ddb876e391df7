# What is planned from the inputs. The S ids are those of the requirements that a run shows.

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

run "defaults_s155" {
  command = plan

  assert {
    condition     = aws_iam_role.controller.name == "KarpenterControllerRole-eks-cluster-dev" && aws_iam_role.node.name == "KarpenterNodeRole-eks-cluster-dev"
    error_message = "names of the roles"
  }
  assert {
    condition     = length(aws_iam_policy.controller) == 6 && length(aws_iam_role_policy_attachment.controller) == 6
    error_message = "the controller has six policies"
  }
  assert {
    condition     = alltrue([for policy in aws_iam_policy.controller : !strcontains(policy.policy, "$${")])
    error_message = "no placeholder is left in a policy"
  }
  assert {
    condition     = strcontains(aws_iam_policy.controller["KarpenterControllerIAMIntegrationPolicy"].policy, "arn:aws:iam::111122223333:role/KarpenterNodeRole-eks-cluster-dev")
    error_message = "the controller may pass the role of the nodes"
  }
  assert {
    condition     = length(aws_iam_role_policy_attachment.node) == 4 && length(aws_iam_role_policy_attachment.node_additional) == 0
    error_message = "the nodes have the managed policies"
  }
  assert {
    condition     = aws_iam_instance_profile.node[0].name == "KarpenterNodeInstanceProfile-eks-cluster-dev"
    error_message = "instance profile"
  }
  assert {
    condition     = aws_eks_access_entry.node[0].type == "EC2_LINUX"
    error_message = "access entry"
  }
  assert {
    condition     = aws_eks_pod_identity_association.controller[0].namespace == "karpenter" && aws_eks_pod_identity_association.controller[0].service_account == "karpenter"
    error_message = "pod identity association"
  }
  assert {
    condition     = aws_sqs_queue.interruption[0].name == "Karpenter-eks-cluster-dev" && aws_sqs_queue.interruption[0].message_retention_seconds == 300 && aws_sqs_queue.interruption[0].sqs_managed_sse_enabled
    error_message = "queue"
  }
  assert {
    condition     = length(aws_cloudwatch_event_rule.interruption) == 5 && length(aws_cloudwatch_event_target.interruption) == 5
    error_message = "five rules, each with a target"
  }
  assert {
    condition     = alltrue([for rule in aws_cloudwatch_event_rule.interruption : startswith(rule.name, "Karpenter") && length(rule.name) <= 64])
    error_message = "names of the rules"
  }
  assert {
    condition     = aws_iam_role.controller.tags == tomap({ Environment = "dev" })
    error_message = "the tag of the environment"
  }
  assert {
    condition     = kubectl_manifest.namespace[0].wait
    error_message = "the namespace is made"
  }
  assert {
    condition     = output.queue_name == "Karpenter-eks-cluster-dev" && output.node_iam_role_name == "KarpenterNodeRole-eks-cluster-dev" && output.instance_profile_name == "KarpenterNodeInstanceProfile-eks-cluster-dev"
    error_message = "outputs"
  }
}

run "helm_values_s156" {
  command = plan

  assert {
    condition     = helm_release.controller.name == "karpenter" && helm_release.crd.name == "karpenter-crd" && helm_release.controller.version == helm_release.crd.version
    error_message = "two releases of one version"
  }
  assert {
    condition     = yamldecode(helm_release.controller.values[0]).settings == { clusterName = "eks-cluster-dev", clusterEndpoint = "https://EXAMPLE.gr7.us-west-2.eks.amazonaws.com", interruptionQueue = "Karpenter-eks-cluster-dev" }
    error_message = "settings"
  }
  assert {
    condition     = yamldecode(helm_release.controller.values[0]).controller.resources.requests == { cpu = "1", memory = "1Gi" }
    error_message = "requests"
  }
  assert {
    condition     = yamldecode(helm_release.controller.values[0]).serviceAccount == { name = "karpenter", annotations = {} }
    error_message = "service account"
  }
  assert {
    condition     = yamldecode(helm_release.controller.values[0]).replicas == 2
    error_message = "replicas"
  }
}

run "custom_s157" {
  command = plan

  variables {
    namespace                         = "node-autoscaling"
    service_account_name              = "node-autoscaler"
    helm_chart_version                = "0.1.1"
    environment                       = "production"
    resource_tag                      = { Team = "platform" }
    replicas                          = 1
    helm_values                       = ["logLevel: debug", "replicas: 3"]
    queue_name                        = "interruptions"
    rule_name_prefix                  = "Nodes"
    queue_kms_master_key_id           = "alias/queue"
    node_iam_role_additional_policies = { cloudwatch = "arn:aws:iam::aws:policy/CloudWatchAgentServerPolicy" }
    create_instance_profile           = false
    create_access_entry               = false
  }

  assert {
    condition     = aws_eks_pod_identity_association.controller[0].namespace == "node-autoscaling" && aws_eks_pod_identity_association.controller[0].service_account == "node-autoscaler"
    error_message = "association"
  }
  assert {
    condition     = helm_release.controller.namespace == "node-autoscaling" && helm_release.controller.version == "0.1.1" && helm_release.crd.version == "0.1.1"
    error_message = "release"
  }
  assert {
    condition     = helm_release.controller.repository == "oci://ghcr.io/dovetail-sh/charts" && helm_release.controller.chart == "karpenter"
    error_message = "charts of the repository"
  }
  assert {
    condition     = length(helm_release.controller.values) == 3 && helm_release.controller.values[2] == "replicas: 3"
    error_message = "values of the user come last"
  }
  assert {
    condition     = aws_sqs_queue.interruption[0].tags == tomap({ Environment = "production", Team = "platform" })
    error_message = "tags"
  }
  assert {
    condition     = aws_sqs_queue.interruption[0].name == "interruptions" && aws_sqs_queue.interruption[0].kms_master_key_id == "alias/queue"
    error_message = "queue"
  }
  assert {
    condition     = strcontains(aws_iam_policy.controller["KarpenterControllerInterruptionPolicy"].policy, "arn:aws:sqs:us-west-2:111122223333:interruptions")
    error_message = "the controller may read that queue"
  }
  assert {
    condition     = alltrue([for rule in aws_cloudwatch_event_rule.interruption : startswith(rule.name, "Nodes")])
    error_message = "rules"
  }
  assert {
    condition     = aws_iam_role_policy_attachment.node_additional["cloudwatch"].policy_arn == "arn:aws:iam::aws:policy/CloudWatchAgentServerPolicy"
    error_message = "policies of nodes"
  }
  assert {
    condition     = output.instance_profile_name == null && output.node_access_entry_arn == null
    error_message = "neither profile nor access entry"
  }
}

run "kube_system_is_not_made" {
  command = plan

  variables {
    namespace = "kube-system"
  }

  assert {
    condition     = length(kubectl_manifest.namespace) == 0
    error_message = "kube-system is there"
  }
}

run "local_charts" {
  command = plan

  variables {
    helm_repository = "../../../charts/"
  }

  assert {
    condition     = helm_release.controller.repository == null && helm_release.controller.chart == "../../../charts/karpenter" && helm_release.crd.chart == "../../../charts/karpenter-crd"
    error_message = "charts of a folder"
  }
}

run "without_spot_termination_s158" {
  command = plan

  variables {
    enable_spot_termination = false
  }

  assert {
    condition     = length(aws_sqs_queue.interruption) + length(aws_sqs_queue_policy.interruption) + length(aws_cloudwatch_event_rule.interruption) + length(aws_cloudwatch_event_target.interruption) == 0
    error_message = "neither queue nor rules"
  }
  assert {
    condition     = yamldecode(helm_release.controller.values[0]).settings.interruptionQueue == ""
    error_message = "the controller reads no queue"
  }
  assert {
    condition     = !contains(keys(aws_iam_policy.controller), "KarpenterControllerInterruptionPolicy")
    error_message = "no policy about a queue"
  }
  assert {
    condition     = output.queue_name == null && output.queue_url == null && output.queue_arn == null && length(output.event_rules) == 0
    error_message = "outputs"
  }
}

run "irsa" {
  command = plan

  variables {
    auth_mode         = "irsa"
    oidc_provider_arn = "arn:aws:iam::111122223333:oidc-provider/oidc.eks.us-west-2.amazonaws.com/id/EXAMPLE"
  }

  assert {
    condition     = length(aws_eks_pod_identity_association.controller) == 0
    error_message = "no association"
  }
  assert {
    condition     = jsondecode(aws_iam_role.controller.assume_role_policy).Statement[0].Principal.Federated == "arn:aws:iam::111122223333:oidc-provider/oidc.eks.us-west-2.amazonaws.com/id/EXAMPLE"
    error_message = "the role trusts the provider"
  }
  assert {
    condition     = jsondecode(aws_iam_role.controller.assume_role_policy).Statement[0].Condition.StringEquals["oidc.eks.us-west-2.amazonaws.com/id/EXAMPLE:sub"] == "system:serviceaccount:karpenter:karpenter"
    error_message = "for one service account"
  }
}

run "long_cluster_name" {
  command = plan

  variables {
    eks_cluster_name = join("", [for i in range(100) : "a"])
  }

  assert {
    condition     = length(aws_iam_role.controller.name) == 64 && length(aws_iam_role.node.name) == 64 && length(aws_sqs_queue.interruption[0].name) == 80 && length(aws_iam_instance_profile.node[0].name) == 128
    error_message = "names are as long as AWS allows"
  }
  assert {
    condition     = alltrue([for rule in aws_cloudwatch_event_rule.interruption : length(rule.name) <= 64]) && alltrue([for policy in aws_iam_policy.controller : length(policy.name) <= 128])
    error_message = "names of rules and policies"
  }
  assert {
    condition     = yamldecode(kubectl_manifest.node_class.yaml_body).spec.role == aws_iam_role.node.name && strcontains(aws_iam_policy.controller["KarpenterControllerIAMIntegrationPolicy"].policy, aws_iam_role.node.name)
    error_message = "the class and the policy name the role as it is called"
  }
}

run "node_class_s151" {
  command = plan

  variables {
    resource_tag = { Team = "platform" }
  }

  assert {
    condition     = yamldecode(kubectl_manifest.node_class.yaml_body).spec.amiSelectorTerms == [{ alias = "al2023@latest" }]
    error_message = "AL2023"
  }
  assert {
    condition     = yamldecode(kubectl_manifest.node_class.yaml_body).spec.role == "KarpenterNodeRole-eks-cluster-dev"
    error_message = "role"
  }
  assert {
    condition     = yamldecode(kubectl_manifest.node_class.yaml_body).spec.subnetSelectorTerms == [{ tags = { "karpenter.sh/discovery" = "eks-cluster-dev" } }] && yamldecode(kubectl_manifest.node_class.yaml_body).spec.securityGroupSelectorTerms == [{ tags = { "karpenter.sh/discovery" = "eks-cluster-dev" } }]
    error_message = "selectors"
  }
  assert {
    condition     = yamldecode(kubectl_manifest.node_class.yaml_body).spec.tags == { Environment = "dev", Team = "platform", "karpenter.sh/discovery" = "eks-cluster-dev" }
    error_message = "tags of instances"
  }
  assert {
    condition     = kubectl_manifest.node_class.wait && kubectl_manifest.infra_node_pool[0].wait && kubectl_manifest.app_node_pool[0].wait
    error_message = "a destroy waits for NodeClaims"
  }
}

run "node_pools" {
  command = plan

  assert {
    condition     = yamldecode(kubectl_manifest.infra_node_pool[0].yaml_body).spec.template.metadata.labels == { "node-type" = "infrastructure", "workload-type" = "platform" }
    error_message = "labels of infra"
  }
  assert {
    condition     = yamldecode(kubectl_manifest.infra_node_pool[0].yaml_body).spec.template.spec.taints == [{ key = "workload-type", value = "infrastructure", effect = "PreferNoSchedule" }]
    error_message = "taint of infra"
  }
  assert {
    condition     = yamldecode(kubectl_manifest.app_node_pool[0].yaml_body).spec.template.metadata.labels == { "node-type" = "application", "workload-type" = "business" }
    error_message = "labels of app"
  }
  assert {
    condition     = length(kubectl_manifest.provider_node_pool) == 0
    error_message = "no others"
  }
}

run "no_node_pools" {
  command = plan

  variables {
    create_infra_node_pool = false
    create_app_node_pool   = false
  }

  assert {
    condition     = length(kubectl_manifest.infra_node_pool) + length(kubectl_manifest.app_node_pool) == 0
    error_message = "no pool"
  }
}

run "karpenter_provider_s162" {
  command = plan

  variables {
    karpenter_provider = [
      {
        provider_name      = "general"
        capacity_type      = ["spot", "on-demand"]
        instance_family    = ["m6i"]
        instance_sizes     = ["large", "xlarge"]
        availability_zones = ["us-west-2a"]
        cpu_limit          = 100
        memory_limit       = "400Gi"
        ttl_scaling_empty  = 30
        ttl_nodes          = 2592000
      },
      { provider_name = "any" },
    ]
  }

  assert {
    condition = yamldecode(kubectl_manifest.provider_node_pool["general"].yaml_body) == {
      apiVersion = "karpenter.sh/v1"
      kind       = "NodePool"
      metadata   = { name = "general" }
      spec = {
        template = { spec = {
          nodeClassRef = { group = "karpenter.k8s.aws", kind = "EC2NodeClass", name = "default" }
          requirements = [
            { key = "karpenter.sh/capacity-type", operator = "In", values = ["spot", "on-demand"] },
            { key = "karpenter.k8s.aws/instance-family", operator = "In", values = ["m6i"] },
            { key = "karpenter.k8s.aws/instance-size", operator = "In", values = ["large", "xlarge"] },
            { key = "topology.kubernetes.io/zone", operator = "In", values = ["us-west-2a"] },
          ]
          expireAfter = "2592000s"
        } }
        limits     = { cpu = "100", memory = "400Gi" }
        disruption = { consolidationPolicy = "WhenEmpty", consolidateAfter = "30s" }
      }
    }
    error_message = "a NodePool with what the entry says"
  }
  assert {
    condition     = yamldecode(kubectl_manifest.provider_node_pool["any"].yaml_body).spec.template.spec == { nodeClassRef = { group = "karpenter.k8s.aws", kind = "EC2NodeClass", name = "default" }, requirements = [], expireAfter = "Never" }
    error_message = "what is left out is not required"
  }
  assert {
    condition     = yamldecode(kubectl_manifest.provider_node_pool["any"].yaml_body).spec.disruption.consolidateAfter == "Never" && length(yamldecode(kubectl_manifest.provider_node_pool["any"].yaml_body).spec.limits) == 0
    error_message = "nor limited or removed"
  }
}

run "spot_role_is_missing" {
  command = plan

  assert {
    condition     = length(aws_iam_service_linked_role.spot) == 1 && aws_iam_service_linked_role.spot[0].aws_service_name == "spot.amazonaws.com" && time_sleep.spot_role[0].create_duration == "10s"
    error_message = "it is made, and waited for"
  }
}

run "spot_role_exists" {
  command = plan

  override_data {
    target = data.aws_iam_roles.spot_before
    values = { arns = ["arn:aws:iam::111122223333:role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot"] }
  }
  override_data {
    target = data.aws_iam_roles.spot
    values = { arns = ["arn:aws:iam::111122223333:role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot"] }
  }

  assert {
    condition     = length(aws_iam_service_linked_role.spot) == 0 && length(time_sleep.spot_role) == 0
    error_message = "nothing is made"
  }
  assert {
    condition     = output.spot_service_linked_role_arn == "arn:aws:iam::111122223333:role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot"
    error_message = "it is shown"
  }
}

run "spot_role_not_wanted" {
  command = plan

  variables {
    create_spot_service_linked_role = false
  }

  assert {
    condition     = length(aws_iam_service_linked_role.spot) == 0 && length(data.aws_iam_roles.spot_before) == 0 && output.spot_service_linked_role_arn == null
    error_message = "it is not even looked up"
  }
}
