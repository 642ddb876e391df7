package cluster

import (
	corev1 "k8s.io/api/core/v1"
)

// DefaultRequests is what the LimitRanges of a namespace have each container of a new pod request, of what it does
// not request itself. Of several LimitRanges the API server takes any that comes first, so the largest counts here:
// a node must have room whichever it is.
func DefaultRequests(ranges ...*corev1.LimitRange) corev1.ResourceList {
	most := corev1.ResourceList{}
	for _, r := range ranges {
		for i := range r.Spec.Limits {
			// any order: each resource has the largest amount
			for name, amount := range defaultRequest(&r.Spec.Limits[i]) {
				if before, found := most[name]; !found || amount.Cmp(before) > 0 {
					most[name] = amount
				}
			}
		}
	}
	return most
}

// defaultRequest reads one entry of a LimitRange as the API server completes it: a request that is not given is the
// default limit, that is the largest limit if it is not given either, and the least request is the last resort.
func defaultRequest(item *corev1.LimitRangeItem) corev1.ResourceList {
	if item.Type != corev1.LimitTypeContainer {
		return nil
	}
	all := item.DefaultRequest
	for _, other := range []corev1.ResourceList{item.Default, item.Max, item.Min} {
		all = completed(all, other, nil)
	}
	return all
}
