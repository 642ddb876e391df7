package launch

import "k8s.io/apimachinery/pkg/types"

// Again says that the instance a claim was answered with belongs to another claim, which took it over
// after a restart: the token stands for that instance, so the next launch asks with another one (A01).
func (l *Launcher) Again(claim types.UID) { l.attempts.raise(claim) }
