package launch

import "k8s.io/apimachinery/pkg/types"

// UseNewToken makes the next launch of a claim use another token. It is called when the instance that EC2
// returned belongs to another claim, which adopted it after a restart: the token stands for that instance
// (A01).
func (l *Launcher) UseNewToken(claim types.UID) { l.attempts.countFailure(claim) }
