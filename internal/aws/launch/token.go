package launch

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// attemptsFor is how long attempts are counted. EC2 itself drops tokens after a day or two.
const attemptsFor = 48 * time.Hour

// attempts counts for each claim how often a response of EC2 certainly contained no instance. Tokens of launches
// depend on it: the same token requests the same instance, another one another.
type attempts struct {
	now func() time.Time

	mu sync.Mutex
	by map[types.UID]attempt
}

type attempt struct {
	count int
	at    time.Time
}

func newAttempts(now func() time.Time) *attempts {
	return &attempts{now: now, by: map[types.UID]attempt{}}
}

// token is the token of a launch for some claims. It depends only on the claims and their attempts: it is the same
// for every caller and after a restart, until a response certainly contained no instance.
func (a *attempts) token(uids []types.UID) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	sum := sha256.New()
	for _, uid := range slices.Sorted(slices.Values(uids)) {
		fmt.Fprintf(sum, "%s/%d\n", uid, a.by[uid].count)
	}
	text := hex.EncodeToString(sum.Sum(nil))
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:32]
}

// countFailure records that a response of EC2 certainly contained no instance for the claim.
func (a *attempts) countFailure(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.by[uid] = attempt{count: a.by[uid].count + 1, at: a.now()}
}

func (a *attempts) dropOldAttempts() {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	for uid, old := range a.by {
		if now.Sub(old.at) > attemptsFor {
			delete(a.by, uid)
		}
	}
}

// UseNewToken makes the next launch of a claim use another token. It is called when the instance that EC2
// returned belongs to another claim, which adopted it after a restart: the token stands for that instance
// (A01).
func (l *Launcher) UseNewToken(claim types.UID) { l.attempts.countFailure(claim) }
