package awsemu

// uninstall leaves the account as it was before anybody installed a controller: with a network, images, a cluster and its
// OIDC provider, and nothing else.
func (e *Emulator) uninstall() {
	providers := e.iam().Providers
	e.model.SQS, e.model.IAM = nil, nil
	e.iam().Providers = providers
	e.sqs()
	e.eks().Associations, e.eks().Cluster.AccessEntries = nil, nil
}
