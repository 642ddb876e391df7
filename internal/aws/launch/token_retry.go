package launch

import "k8s.io/apimachinery/pkg/types"

// UseNewToken says that the instance a claim was answered with belongs to another claim, which took it over
// after a restart: the token stands for that instance, so the next launch asks with another one (A01).
func (l *Launcher) UseNewToken(claim types.UID) { l.attempts.countFailure(claim) }
