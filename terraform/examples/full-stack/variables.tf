variable "cluster_name" {
  description = "Name of the cluster."
  type        = string
  default     = "backend"
}

variable "k8s_version" {
  description = "Version of Kubernetes, such as 1.34."
  type        = string

  validation {
    condition     = can(regex("^1\\.[0-9]+$", var.k8s_version))
    error_message = "The value of k8s_version, \"${var.k8s_version}\", is not a version of EKS: write it as in 1.34."
  }
}

variable "aws_region" {
  description = "Region of the cluster; null means that of the environment."
  type        = string
  default     = null
}

variable "subnet_ids" {
  description = "Subnets of the cluster and of its nodes, in two zones or more; they get the tag karpenter.sh/discovery. An empty list means those that carry the tag already."
  type        = list(string)
  default     = []
}

variable "private_subnets" {
  description = "Whether the subnets are private. Then they are tagged for internal load balancers."
  type        = bool
  default     = true
}

variable "tags" {
  description = "Tags of everything that is made."
  type        = map(string)
  default     = {}
}

variable "node_groups" {
  description = "Node groups that EKS keeps. The default is the bootstrap group, which runs the controller and CoreDNS. Without ami_type it follows from the first instance type."
  type = list(object({
    name                       = string
    labels                     = optional(map(string), {})
    instance_types             = list(string)
    capacity_type              = optional(string, "ON_DEMAND")
    max_unavailable_percentage = optional(number, 50)
    desired_capacity           = number
    max_capacity               = number
    min_capacity               = number
    ami_type                   = optional(string)
    taints                     = optional(list(object({ key = string, value = string, effect = string })), [])
  }))
  default = [{
    name             = "bootstrap"
    labels           = { "node-type" = "bootstrap" }
    instance_types   = ["t4g.medium"]
    capacity_type    = "ON_DEMAND"
    desired_capacity = 2
    max_capacity     = 3
    min_capacity     = 2
    taints           = [{ key = "CriticalAddonsOnly", value = "true", effect = "NO_SCHEDULE" }]
  }]

  validation {
    condition     = length(var.node_groups) > 0
    error_message = "The list node_groups is empty, but the controller needs a node that it does not manage: leave node_groups out to get the bootstrap group."
  }

  validation {
    condition     = alltrue([for group in var.node_groups : contains(["ON_DEMAND", "SPOT"], group.capacity_type)])
    error_message = "These values of capacity_type in node_groups are not known; use ON_DEMAND or SPOT: ${join(", ", [for group in var.node_groups : "\"${group.capacity_type}\"" if !contains(["ON_DEMAND", "SPOT"], group.capacity_type)])}."
  }
}

variable "service_account" {
  description = "Service accounts that get an IAM role of their own. Their namespaces must exist."
  type = list(object({
    name      = string
    namespace = string
  }))
  default = []
}

variable "karpenter_provider" {
  description = "One NodePool each, as in the module. An empty list means the NodePools infra and app."
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
}

variable "map_roles" {
  description = "IAM roles that may use the cluster, as in mapRoles of aws-auth."
  type        = list(object({ rolearn = string, username = string, groups = list(string) }))
  default     = []
}

variable "map_users" {
  description = "IAM users that may use the cluster, as in mapUsers of aws-auth."
  type        = list(object({ userarn = string, username = string, groups = list(string) }))
  default     = []
}

variable "map_accounts" {
  description = "AWS accounts whose users may use the cluster, as in mapAccounts of aws-auth."
  type        = list(string)
  default     = []
}

variable "addon_cni_version" {
  description = "Version of the add-on vpc-cni, such as v1.12.0-eksbuild.1; null means the one that EKS prefers for the version of Kubernetes."
  type        = string
  default     = null
}

variable "addon_coredns_version" {
  description = "Version of the add-on coredns, such as v1.8.7-eksbuild.3; null means the one that EKS prefers for the version of Kubernetes."
  type        = string
  default     = null
}

variable "addon_kubeproxy_version" {
  description = "Version of the add-on kube-proxy, such as v1.23.8-eksbuild.2; null means the one that EKS prefers for the version of Kubernetes."
  type        = string
  default     = null
}

variable "neighbours" {
  description = "Charts to install beside the controller: metrics-server, kube-state-metrics, keda, vpa, kube-ops-view."
  type        = set(string)
  default     = []

  validation {
    condition     = length(setsubtract(var.neighbours, ["metrics-server", "kube-state-metrics", "keda", "vpa", "kube-ops-view"])) == 0
    error_message = "These values of neighbours are not known; use metrics-server, kube-state-metrics, keda, vpa or kube-ops-view: ${join(", ", setsubtract(var.neighbours, ["metrics-server", "kube-state-metrics", "keda", "vpa", "kube-ops-view"]))}. The controller handles interruptions itself, so there is no node termination handler."
  }
}

variable "helm_repository" {
  description = "Where the charts of the controller are; in a clone of the repository, ../../../charts."
  type        = string
  default     = "oci://ghcr.io/dovetail-sh/charts"
}
