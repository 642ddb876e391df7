package inspect

// Explain says why an object of a cluster is as it is. The error is a NotFoundError if the cluster has no such object.
func Explain(_ *Cluster, about Subject) (Explanation, error) {
	return Explanation{}, NotFoundError{Subject: about}
}
