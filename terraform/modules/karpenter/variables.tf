variable "eks_cluster_name" {
  description = "Name of the EKS cluster."
  type        = string

  validation {
    condition     = can(regex("^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$", var.eks_cluster_name))
    error_message = "The value of eks_cluster_name, \"${var.eks_cluster_name}\", is not the name of an EKS cluster: use 1 to 100 letters, digits, hyphens and underscores, beginning with a letter or a digit; aws eks list-clusters shows the names."
  }
}

variable "eks_cluster_endpoint" {
  description = "URL of the API server of the cluster, which nodes connect to."
  type        = string

  validation {
    condition     = can(regex("^https://[^/\\s]+/?$", var.eks_cluster_endpoint))
    error_message = "The value of eks_cluster_endpoint, \"${var.eks_cluster_endpoint}\", is not an https:// URL without a path: use the attribute endpoint of aws_eks_cluster, or what aws eks describe-cluster --query cluster.endpoint prints."
  }
}

variable "aws_region" {
  description = "Region of the cluster. It must be the region of the AWS provider."
  type        = string

  validation {
    condition     = can(regex("^[a-z]{2,4}(-[a-z]+)+-[0-9]+$", var.aws_region))
    error_message = "The value of aws_region, \"${var.aws_region}\", is not a region: write it as in us-west-2, without the letter of a zone."
  }
}

variable "environment" {
  description = "Value of the tag Environment of everything that is made."
  type        = string
  default     = "dev"

  validation {
    condition     = can(regex("^[0-9A-Za-z _.:/=+@-]{1,256}$", var.environment))
    error_message = "The value of environment, \"${var.environment}\", cannot be the value of a tag: use 1 to 256 letters, digits, spaces and the characters _ . : / = + - @."
  }
}

variable "namespace" {
  description = "Namespace of the controller. It is made unless it is kube-system."
  type        = string
  default     = "karpenter"

  validation {
    condition     = can(regex("^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", var.namespace))
    error_message = "The value of namespace, \"${var.namespace}\", is not the name of a namespace: use 1 to 63 lower-case letters, digits and hyphens, such as karpenter or kube-system."
  }
}

variable "service_account_name" {
  description = "Name of the controller's service account, which the IAM role is bound to."
  type        = string
  default     = "karpenter"

  validation {
    condition     = can(regex("^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$", var.service_account_name))
    error_message = "The value of service_account_name, \"${var.service_account_name}\", is not the name of a service account: use lower-case letters, digits, hyphens and dots, such as karpenter."
  }
}

variable "helm_chart_version" {
  description = "Version of both charts. Not used with charts in a local folder."
  type        = string
  default     = "0.1.0"

  validation {
    condition     = can(regex("^[0-9]+\\.[0-9]+\\.[0-9]+([-+][0-9A-Za-z.+-]+)?$", var.helm_chart_version))
    error_message = "The value of helm_chart_version, \"${var.helm_chart_version}\", is not a version: write it as in 0.1.0, without a leading v and without a range."
  }
}

variable "resource_tag" {
  description = "Tags of everything that is made, and of the instances of the EC2NodeClass."
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for key in keys(var.resource_tag) : !can(regex("^(aws:|kubernetes\\.io/cluster|eks:eks-cluster-name$|karpenter\\.sh/nodepool$|karpenter\\.sh/nodeclaim$|karpenter\\.k8s\\.aws/ec2nodeclass$)", key))])
    error_message = "These keys of resource_tag are set by AWS or by the controller, so leave them out: ${join(", ", [for key in keys(var.resource_tag) : key if can(regex("^(aws:|kubernetes\\.io/cluster|eks:eks-cluster-name$|karpenter\\.sh/nodepool$|karpenter\\.sh/nodeclaim$|karpenter\\.k8s\\.aws/ec2nodeclass$)", key))])}."
  }
}

variable "enable_spot_termination" {
  description = "Whether to make the interruption queue and the EventBridge rules, so that nodes are replaced before AWS reclaims or maintains them."
  type        = bool
  default     = true
}

variable "auth_mode" {
  description = "How the controller gets credentials: pod-identity (the add-on eks-pod-identity-agent must run) or irsa."
  type        = string
  default     = "pod-identity"

  validation {
    condition     = contains(["pod-identity", "irsa"], var.auth_mode)
    error_message = "The value of auth_mode, \"${var.auth_mode}\", is not known: use \"pod-identity\" or \"irsa\"."
  }
}

variable "oidc_provider_arn" {
  description = "ARN of the cluster's IAM OIDC provider. Required with auth_mode irsa."
  type        = string
  default     = null

  validation {
    condition     = var.oidc_provider_arn == null || can(regex("^arn:[a-z-]+:iam::[0-9]{12}:oidc-provider/[^/]+", var.oidc_provider_arn))
    error_message = "The value of oidc_provider_arn, ${jsonencode(var.oidc_provider_arn)}, is not the ARN of an IAM OIDC provider, as in arn:aws:iam::111122223333:oidc-provider/oidc.eks.us-west-2.amazonaws.com/id/EXAMPLE: aws iam list-open-id-connect-providers shows those of the account."
  }
}

variable "queue_name" {
  description = "Name of the interruption queue; null means Karpenter-<cluster>."
  type        = string
  default     = null

  validation {
    condition     = var.queue_name == null || can(regex("^[0-9A-Za-z_-]{1,80}$", var.queue_name))
    error_message = "The value of queue_name, ${jsonencode(var.queue_name)}, is not the name of a standard queue: use 1 to 80 letters, digits, hyphens and underscores; a FIFO queue does not work."
  }
}

variable "queue_kms_master_key_id" {
  description = "KMS key for the queue; null means encryption with keys of SQS. The policy of the key must let events.amazonaws.com and the controller's role use it."
  type        = string
  default     = null
}

variable "node_iam_role_additional_policies" {
  description = "Further policies of the nodes' role, by a name of your choice: { cloudwatch = \"arn:aws:iam::aws:policy/CloudWatchAgentServerPolicy\" }."
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for arn in values(var.node_iam_role_additional_policies) : can(regex("^arn:[a-z-]+:iam::([0-9]{12}|aws):policy/.+", arn))])
    error_message = "These values of node_iam_role_additional_policies are not ARNs of policies, as in arn:aws:iam::aws:policy/CloudWatchAgentServerPolicy: ${join(", ", [for name, arn in var.node_iam_role_additional_policies : "${name} = \"${arn}\"" if !can(regex("^arn:[a-z-]+:iam::([0-9]{12}|aws):policy/.+", arn))])}."
  }
}

variable "create_instance_profile" {
  description = "Whether to make an instance profile for the nodes' role, for an EC2NodeClass of yours with spec.instanceProfile. The class of this module has spec.role, for which the controller makes a profile itself."
  type        = bool
  default     = true
}

variable "create_access_entry" {
  description = "Whether to make the access entry that lets nodes join. Set it to false if the cluster's authentication mode is CONFIG_MAP, and put the nodes' role into aws-auth."
  type        = bool
  default     = true
}

variable "create_spot_service_linked_role" {
  description = "Whether to make the role AWSServiceRoleForEC2Spot if the account does not have it. Spot instances need it."
  type        = bool
  default     = true
}

variable "rule_name_prefix" {
  description = "What the names of the EventBridge rules begin with."
  type        = string
  default     = "Karpenter"

  validation {
    condition     = can(regex("^[0-9A-Za-z_.-]{1,20}$", var.rule_name_prefix))
    error_message = "The value of rule_name_prefix, \"${var.rule_name_prefix}\", cannot begin the name of a rule: use 1 to 20 letters, digits, hyphens, dots and underscores."
  }
}

variable "replicas" {
  description = "How many controllers run. Each needs a node that it does not manage; use 1 with a single such node."
  type        = number
  default     = 2

  validation {
    condition     = var.replicas >= 1 && floor(var.replicas) == var.replicas
    error_message = "The value of replicas, ${var.replicas}, is not a whole number of at least 1; 2 is for production, 1 for a trial."
  }
}

variable "helm_values" {
  description = "Values for the controller's chart as YAML documents; they win over those of this module, and a later document over an earlier one."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for document in var.helm_values : can(keys(yamldecode(document)))])
    error_message = "Document ${join(", ", [for number, document in var.helm_values : number + 1 if !can(keys(yamldecode(document)))])} of helm_values is not a YAML mapping: give text such as yamlencode({ logLevel = \"debug\" }) or file(\"values.yaml\")."
  }
}

variable "helm_repository" {
  description = "Where the charts are: an oci:// or https:// repository, or a local folder that holds karpenter and karpenter-crd."
  type        = string
  default     = "oci://ghcr.io/dovetail-sh/charts"

  validation {
    condition     = length(var.helm_repository) > 0
    error_message = "The value of helm_repository is empty: give an oci:// or https:// repository, or a local folder such as ./charts."
  }
}

variable "ami_alias" {
  description = "AMIs of the EC2NodeClass. In production name a release, such as al2023@v20260301."
  type        = string
  default     = "al2023@latest"

  validation {
    condition     = can(regex("^[a-z0-9]+@.+$", var.ami_alias))
    error_message = "The value of ami_alias, \"${var.ami_alias}\", is not an alias: write family@version, as in al2023@latest or bottlerocket@v1.30.0."
  }
}

variable "create_infra_node_pool" {
  description = "Whether to make the NodePool infra: on-demand nodes for the platform."
  type        = bool
  default     = true
}

variable "create_app_node_pool" {
  description = "Whether to make the NodePool app: spot and on-demand nodes for applications."
  type        = bool
  default     = true
}

variable "karpenter_provider" {
  description = "One NodePool each. ttl_scaling_empty: seconds until an empty node is removed; ttl_nodes: seconds until a node is replaced; without them, never."
  type = list(object({
    provider_name      = string
    capacity_type      = optional(list(string), [])
    instance_family    = optional(list(string), [])
    instance_sizes     = optional(list(string), [])
    availability_zones = optional(list(string), [])
    cpu_limit          = optional(string)
    memory_limit       = optional(string)
    ttl_scaling_empty  = optional(number)
    ttl_nodes          = optional(number)
  }))
  default = []

  validation {
    condition     = alltrue([for provider in var.karpenter_provider : can(regex("^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", provider.provider_name))])
    error_message = "These values of provider_name in karpenter_provider cannot be names of NodePools; use lower-case letters, digits and hyphens: ${join(", ", [for provider in var.karpenter_provider : "\"${provider.provider_name}\"" if !can(regex("^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", provider.provider_name))])}."
  }

  validation {
    condition     = length(distinct(var.karpenter_provider[*].provider_name)) == length(var.karpenter_provider)
    error_message = "Two entries of karpenter_provider have the same provider_name; each becomes the NodePool of that name, so give every entry a name of its own: ${join(", ", var.karpenter_provider[*].provider_name)}."
  }

  validation {
    condition     = alltrue([for type in flatten(var.karpenter_provider[*].capacity_type) : contains(["spot", "on-demand", "reserved"], type)])
    error_message = "These values of capacity_type in karpenter_provider are not known; use spot, on-demand or reserved: ${join(", ", [for type in flatten(var.karpenter_provider[*].capacity_type) : "\"${type}\"" if !contains(["spot", "on-demand", "reserved"], type)])}."
  }

  validation {
    condition     = alltrue([for limit in flatten([for provider in var.karpenter_provider : [provider.cpu_limit, provider.memory_limit]]) : limit == null ? true : can(regex("^[0-9]+([.][0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$", limit))])
    error_message = "These values of cpu_limit and memory_limit in karpenter_provider are not quantities; write them as in 100 or 400Gi: ${join(", ", [for limit in flatten([for provider in var.karpenter_provider : [provider.cpu_limit, provider.memory_limit]]) : jsonencode(limit) if limit == null ? false : !can(regex("^[0-9]+([.][0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$", limit))])}."
  }

  validation {
    condition     = alltrue([for seconds in flatten([for provider in var.karpenter_provider : [provider.ttl_scaling_empty, provider.ttl_nodes]]) : seconds == null ? true : seconds >= 0 && floor(seconds) == seconds])
    error_message = "ttl_scaling_empty and ttl_nodes in karpenter_provider are whole numbers of seconds, 0 or more; leave them out for never. Not so in: ${join(", ", [for provider in var.karpenter_provider : provider.provider_name if !alltrue([for seconds in [provider.ttl_scaling_empty, provider.ttl_nodes] : seconds == null ? true : seconds >= 0 && floor(seconds) == seconds])])}."
  }
}
