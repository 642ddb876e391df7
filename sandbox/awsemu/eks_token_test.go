package awsemu

import (
	"encoding/base64"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/google/go-cmp/cmp"
)

// Who a token of `aws eks get-token` is in the cluster.
func TestReviewToken(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	signed, err := sts.NewPresignClient(sts.NewFromConfig(c.cfg)).PresignGetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
	check(t, err)
	token := clusterTokenPrefix + base64.RawURLEncoding.EncodeToString([]byte(signed.URL))
	got, err := c.ReviewToken(token)
	check(t, err)
	if len(got.Groups) != 1 || got.Groups[0] != "system:masters" {
		t.Errorf("the creator of the cluster is %+v", got)
	}

	c.mu.Lock()
	given := c.issueCredentials(c.controllerRole(), "me", podCredentialsValid)
	c.mu.Unlock()
	asRole := clusterTokenPrefix + base64.RawURLEncoding.EncodeToString([]byte("https://sts.amazonaws.com/?Action=GetCallerIdentity&X-Amz-Credential="+given.key+"%2F20300101%2Feu-west-1%2Fsts%2Faws4_request"))
	if user, err := c.ReviewToken(asRole); err == nil {
		t.Errorf("a role without an access entry is %+v", user)
	}
	c.mu.Lock()
	c.eksState().Cluster.AccessEntries = append(c.eksState().Cluster.AccessEntries, AccessEntry{Principal: c.accountARN("iam", "role/"+c.controllerRole()), Type: entryStandard, Groups: []string{"readers"}})
	c.mu.Unlock()
	got, err = c.ReviewToken(asRole)
	check(t, err)
	if diff := cmp.Diff(User{Name: c.accountARN("sts", "assumed-role/"+c.controllerRole()+"/me"), Groups: []string{"readers"}}, got); diff != "" {
		t.Error(diff)
	}
	for name, token := range map[string]string{
		"of a service account": "eyJhbGciOi", "not encoded": clusterTokenPrefix + "?", "no question": clusterTokenPrefix + base64.RawURLEncoding.EncodeToString([]byte("https://sts.amazonaws.com/?Action=GetSessionToken")),
	} {
		if user, err := c.ReviewToken(token); err == nil {
			t.Errorf("%s: the token is of %+v", name, user)
		}
	}
}
