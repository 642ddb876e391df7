package drivers

import (
	"github.com/dovetail-sh/dovetail/internal/aws"
	"github.com/dovetail-sh/dovetail/internal/cloud/driver"
)

// Driver is the cloud that this program launches nodes in.
func Driver() driver.Driver { return aws.Driver() }
