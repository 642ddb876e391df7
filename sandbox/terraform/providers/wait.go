package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
)

// What AWS does in the background is requested this often, and for no longer than this.
const (
	pollInterval = 200 * time.Millisecond
	pollTimeout  = 10 * time.Minute
)

// waitUntil polls until it is done.
func waitUntil(ctx context.Context, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not done after %v: %w", pollTimeout, ctx.Err())
		case <-time.After(pollInterval):
		}
	}
}

// untilGone polls until the object does not exist any more.
func untilGone(ctx context.Context, check func() error) error {
	return waitUntil(ctx, func() (bool, error) {
		err := toErrGone(check())
		if errors.Is(err, errGone) {
			return true, nil
		}
		return false, err
	})
}

func failedDeletion(reason *types.DeletionTaskFailureReasonType) error {
	if reason == nil {
		return errors.New("the deletion failed")
	}
	return fmt.Errorf("the deletion failed: %s", strings.TrimSpace(aws.ToString(reason.Reason)))
}

func equal(a, b any) bool { return reflect.DeepEqual(a, b) }
