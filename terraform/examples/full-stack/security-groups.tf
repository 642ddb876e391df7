# What may reach nodes from the VPC. Nodes and the control plane reach each other in any case: they share this security group.

data "aws_vpc" "this" {
  id = aws_eks_cluster.this.vpc_config[0].vpc_id
}

locals {
  ingress = {
    "node-ports-tcp" = { protocol = "tcp", from = 30000, to = 32767 }
    "node-ports-udp" = { protocol = "udp", from = 30000, to = 32767 }
    "https"          = { protocol = "tcp", from = 443, to = 443 }
    "dns-tcp"        = { protocol = "tcp", from = 53, to = 53 }
    "dns-udp"        = { protocol = "udp", from = 53, to = 53 }
    "http"           = { protocol = "tcp", from = 80, to = 80 }
    "http-alt"       = { protocol = "tcp", from = 8080, to = 8080 }
  }
}

resource "aws_vpc_security_group_ingress_rule" "nodes" {
  for_each = local.ingress

  security_group_id = aws_eks_cluster.this.vpc_config[0].cluster_security_group_id
  description       = each.key
  ip_protocol       = each.value.protocol
  from_port         = each.value.from
  to_port           = each.value.to
  cidr_ipv4         = data.aws_vpc.this.cidr_block
  tags              = var.tags
}
