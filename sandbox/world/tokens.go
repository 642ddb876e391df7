package world

import (
	"encoding/json"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// reviewToken reports to the API server who shows a token of AWS, as the authenticator of EKS does.
func (w *World) reviewToken(out http.ResponseWriter, r *http.Request) {
	var review authenticationv1.TokenReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	account := w.account.Load()
	if account == nil {
		http.Error(out, "the emulated AWS has not started yet", http.StatusServiceUnavailable)
		return
	}
	if user, err := account.ReviewToken(review.Spec.Token); err != nil {
		review.Status.Error = err.Error()
	} else {
		review.Status.Authenticated = true
		review.Status.User = authenticationv1.UserInfo{Username: user.Name, Groups: user.Groups}
	}
	review.Spec = authenticationv1.TokenReviewSpec{}
	out.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(out).Encode(review) // the API server sends it again if it got no response
}
