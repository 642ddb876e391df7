provider "aws" {
  region = var.aws_region
}

# By id, which is unknown until the cluster exists: a token is good for 15 minutes, and one from the plan would be too old by then.
data "aws_eks_cluster_auth" "this" {
  name = aws_eks_cluster.this.id
}

provider "helm" {
  kubernetes = {
    host                   = aws_eks_cluster.this.endpoint
    cluster_ca_certificate = base64decode(aws_eks_cluster.this.certificate_authority[0].data)
    token                  = data.aws_eks_cluster_auth.this.token
  }
}

provider "kubectl" {
  host                   = aws_eks_cluster.this.endpoint
  cluster_ca_certificate = base64decode(aws_eks_cluster.this.certificate_authority[0].data)
  token                  = data.aws_eks_cluster_auth.this.token
  load_config_file       = false
}
