# AWSServiceRoleForEC2Spot exists once per account: it is looked up, made if it is missing, and given time to be known everywhere.

data "aws_iam_roles" "spot_before" {
  count = var.create_spot_service_linked_role ? 1 : 0

  path_prefix = "/aws-service-role/spot.amazonaws.com/"
}

# Remembers what the lookup found at the first apply. Without it the role that was made here would be found at the next plan, and
# be destroyed since it exists.
resource "time_static" "spot_role_lookup" {
  count = var.create_spot_service_linked_role ? 1 : 0

  triggers = { missing = tostring(length(data.aws_iam_roles.spot_before[0].arns) == 0) }

  lifecycle {
    ignore_changes = [triggers]
  }
}

resource "aws_iam_service_linked_role" "spot" {
  count = one(time_static.spot_role_lookup[*].triggers.missing) == "true" ? 1 : 0

  aws_service_name = "spot.amazonaws.com"
  description      = "Spot instances of EC2"
}

resource "time_sleep" "spot_role" {
  count = length(aws_iam_service_linked_role.spot)

  create_duration = "10s"
  triggers        = { role = aws_iam_service_linked_role.spot[count.index].arn }
}

data "aws_iam_roles" "spot" {
  count = var.create_spot_service_linked_role ? 1 : 0

  path_prefix = "/aws-service-role/spot.amazonaws.com/"

  depends_on = [time_sleep.spot_role]
}
