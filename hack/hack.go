package hack

import _ "embed"

// SetupIAM is setup-karpenter-iam.sh. It reads the documents of the folder iam, beside the folder that it is in.
//
//go:embed setup-karpenter-iam.sh
var SetupIAM string
