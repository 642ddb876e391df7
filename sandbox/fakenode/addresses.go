package fakenode

import (
	"net/netip"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// addresses gives each pod an address of 10.128.0.0/9 that no other one has.
type addresses struct {
	mu   sync.Mutex
	next netip.Addr
	used map[netip.Addr]types.UID
}

func newAddresses() *addresses {
	return &addresses{next: netip.AddrFrom4([4]byte{10, 128, 0, 1}), used: map[netip.Addr]types.UID{}}
}

// recordAddress keeps the address of a pod that has one.
func (a *addresses) recordAddress(p *corev1.Pod) {
	if p.Spec.HostNetwork || p.Status.PodIP == "" {
		return
	}
	ip, err := netip.ParseAddr(p.Status.PodIP)
	if err != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used[ip] = p.UID
}

// release gives the address of a pod back, unless another one has it.
func (a *addresses) release(p *corev1.Pod) {
	ip, err := netip.ParseAddr(p.Status.PodIP)
	if err != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.used[ip] == p.UID {
		delete(a.used, ip)
	}
}

// takeFreeAddress returns a free address and reserves it. Addresses go round, so that one just given back is not
// given out again at once.
func (a *addresses) takeFreeAddress(uid types.UID) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		ip := a.next
		if a.next = ip.Next(); !a.next.Is4() || a.next.As4()[0] != 10 {
			a.next = netip.AddrFrom4([4]byte{10, 128, 0, 1})
		}
		if _, taken := a.used[ip]; !taken {
			a.used[ip] = uid
			return ip.String()
		}
	}
}
