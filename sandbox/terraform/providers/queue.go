package main

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	eventtypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

func queueKinds() []kind[*cloud] { return []kind[*cloud]{queueKind(), queuePolicyKind()} }

func eventKinds() []kind[*cloud] { return []kind[*cloud]{ruleKind(), targetKind()} }

// queueAttributes are the attributes of a queue by argument.
func queueAttributes() map[string]string {
	return map[string]string{
		"message_retention_seconds": "MessageRetentionPeriod", "visibility_timeout_seconds": "VisibilityTimeout", "receive_wait_time_seconds": "ReceiveMessageWaitTimeSeconds",
		"delay_seconds": "DelaySeconds", "max_message_size": "MaximumMessageSize", "sqs_managed_sse_enabled": "SqsManagedSseEnabled", "kms_master_key_id": "KmsMasterKeyId",
		"kms_data_key_reuse_period_seconds": "KmsDataKeyReusePeriodSeconds", "policy": "Policy",
	}
}

func queueKind() kind[*cloud] {
	fields := map[string]field{
		"name": forcingReplacement(optionalComputed(text)), "name_prefix": forcingReplacement(optionalComputed(text)), "message_retention_seconds": withDefault(int64(345600)), "visibility_timeout_seconds": withDefault(int64(30)),
		"receive_wait_time_seconds": withDefault(int64(0)), "delay_seconds": withDefault(int64(0)), "max_message_size": optionalComputed(number), "sqs_managed_sse_enabled": optionalComputed(flag),
		"kms_master_key_id": optionalField(text), "kms_data_key_reuse_period_seconds": optionalComputed(number), "policy": jsonField(optionalComputed(text)), "arn": computedField(text), "url": computedField(text),
	}
	return kind[*cloud]{
		name: "aws_sqs_queue", fields: fields,
		create: func(ctx context.Context, c *cloud, o object) error {
			out, err := c.sqs.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String(nameOf(o)), Attributes: givenAttributes(o, nil), Tags: o.textMap("tags_all")})
			if err == nil {
				o["id"] = aws.ToString(out.QueueUrl)
			}
			return err
		},
		read: func(ctx context.Context, c *cloud, o object) error { return readQueue(ctx, c, o, fields) },
		update: func(ctx context.Context, c *cloud, was, o object) error {
			given := givenAttributes(o, was)
			if len(given) == 0 {
				return nil
			}
			return errorOf(c.sqs.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: o.stringPointer("id"), Attributes: given}))
		},
		remove: func(ctx context.Context, c *cloud, o object) error {
			return errorOf(c.sqs.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: o.stringPointer("id")}))
		},
		tag: func(ctx context.Context, c *cloud, o object, set map[string]string) error {
			return errorOf(c.sqs.TagQueue(ctx, &sqs.TagQueueInput{QueueUrl: o.stringPointer("id"), Tags: set}))
		},
		untag: func(ctx context.Context, c *cloud, o object, keys []string) error {
			return errorOf(c.sqs.UntagQueue(ctx, &sqs.UntagQueueInput{QueueUrl: o.stringPointer("id"), TagKeys: keys}))
		},
	}
}

// givenAttributes are those that the user gave, or that differ from before.
func givenAttributes(o, was object) map[string]string {
	out := map[string]string{}
	for argument, attribute := range queueAttributes() {
		if !o.has(argument) && (was == nil || !was.has(argument)) || was != nil && !anyChanged(was, o, argument) {
			continue
		}
		switch v := o[argument].(type) {
		case int64:
			out[attribute] = strconv.FormatInt(v, 10)
		case bool:
			out[attribute] = strconv.FormatBool(v)
		case string:
			out[attribute] = v
		case nil:
			out[attribute] = ""
		}
	}
	return out
}

func readQueue(ctx context.Context, c *cloud, o object, fields map[string]field) error {
	out, err := c.sqs.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: o.stringPointer("id"), AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameAll}})
	if err != nil {
		return toErrGone(err)
	}
	for argument, attribute := range queueAttributes() {
		value := out.Attributes[attribute]
		switch shape := fields[argument].shape; {
		case shape == number:
			n, _ := strconv.ParseInt(value, 10, 64) // absent is none
			o[argument] = n
		case shape == flag:
			o[argument] = value == "true"
		default:
			o[argument] = value
		}
	}
	tags, err := c.sqs.ListQueueTags(ctx, &sqs.ListQueueTagsInput{QueueUrl: o.stringPointer("id")})
	if err != nil {
		return toErrGone(err)
	}
	arn := out.Attributes["QueueArn"]
	o["arn"], o["url"], o["name"], o["tags_all"] = arn, o.stringValue("id"), arn[strings.LastIndex(arn, ":")+1:], tags.Tags
	return nil
}

func queuePolicyKind() kind[*cloud] {
	set := func(ctx context.Context, c *cloud, o object, policy string) error {
		_, err := c.sqs.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: o.stringPointer("queue_url"), Attributes: map[string]string{"Policy": policy}})
		if err == nil {
			o["id"] = o.stringValue("queue_url")
		}
		return toErrGone(err)
	}
	return kind[*cloud]{
		name:   "aws_sqs_queue_policy",
		fields: map[string]field{"queue_url": forcingReplacement(requiredField(text)), "policy": jsonField(requiredField(text))},
		create: func(ctx context.Context, c *cloud, o object) error { return set(ctx, c, o, o.stringValue("policy")) },
		read: func(ctx context.Context, c *cloud, o object) error {
			out, err := c.sqs.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: o.stringPointer("queue_url"), AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNamePolicy}})
			if err != nil {
				return toErrGone(err)
			}
			if out.Attributes["Policy"] == "" {
				return errGone
			}
			o["policy"] = out.Attributes["Policy"]
			return nil
		},
		update: func(ctx context.Context, c *cloud, _, o object) error { return set(ctx, c, o, o.stringValue("policy")) },
		remove: func(ctx context.Context, c *cloud, o object) error { return set(ctx, c, o, "") },
	}
}

func ruleKind() kind[*cloud] {
	put := func(ctx context.Context, c *cloud, o object, tags map[string]string) error {
		name := nameOf(o)
		in := &eventbridge.PutRuleInput{
			Name: &name, Description: o.stringPointer("description"), EventPattern: o.stringPointer("event_pattern"), ScheduleExpression: o.stringPointer("schedule_expression"), State: eventtypes.RuleState(o.stringValue("state")),
		}
		for _, key := range slices.Sorted(maps.Keys(tags)) {
			in.Tags = append(in.Tags, eventtypes.Tag{Key: aws.String(key), Value: aws.String(tags[key])})
		}
		_, err := c.events.PutRule(ctx, in)
		if err == nil {
			o["id"] = name
		}
		return err
	}
	return kind[*cloud]{
		name: "aws_cloudwatch_event_rule",
		fields: map[string]field{
			"name": forcingReplacement(optionalComputed(text)), "name_prefix": forcingReplacement(optionalComputed(text)), "description": optionalField(text), "event_pattern": jsonField(optionalField(text)), "schedule_expression": optionalField(text),
			"event_bus_name": forcingReplacement(withDefault("default")), "state": withDefault("ENABLED"), "force_destroy": withDefault(false), "arn": computedField(text),
		},
		create: func(ctx context.Context, c *cloud, o object) error { return put(ctx, c, o, o.textMap("tags_all")) },
		read: func(ctx context.Context, c *cloud, o object) error {
			out, err := c.events.DescribeRule(ctx, &eventbridge.DescribeRuleInput{Name: o.stringPointer("id")})
			if err != nil {
				return toErrGone(err)
			}
			tags, err := c.events.ListTagsForResource(ctx, &eventbridge.ListTagsForResourceInput{ResourceARN: out.Arn})
			if err != nil {
				return toErrGone(err)
			}
			o["name"], o["arn"], o["description"], o["event_pattern"], o["state"] = out.Name, out.Arn, out.Description, out.EventPattern, string(out.State)
			o["tags_all"] = userTags(tags.Tags, func(t eventtypes.Tag) (key, value *string) { return t.Key, t.Value })
			return nil
		},
		update: func(ctx context.Context, c *cloud, was, o object) error {
			if !anyChanged(was, o, "description", "event_pattern", "schedule_expression", "state") {
				return nil
			}
			return put(ctx, c, o, nil)
		},
		remove: func(ctx context.Context, c *cloud, o object) error {
			return errorOf(c.events.DeleteRule(ctx, &eventbridge.DeleteRuleInput{Name: o.stringPointer("id")}))
		},
		tag: func(ctx context.Context, c *cloud, o object, set map[string]string) error {
			return errorOf(c.events.TagResource(ctx, &eventbridge.TagResourceInput{
				ResourceARN: o.stringPointer("arn"), Tags: tagList(set, func(key, value *string) eventtypes.Tag { return eventtypes.Tag{Key: key, Value: value} }),
			}))
		},
		untag: func(ctx context.Context, c *cloud, o object, keys []string) error {
			return errorOf(c.events.UntagResource(ctx, &eventbridge.UntagResourceInput{ResourceARN: o.stringPointer("arn"), TagKeys: keys}))
		},
	}
}

func targetKind() kind[*cloud] {
	put := func(ctx context.Context, c *cloud, o object) error {
		if o.stringValue("target_id") == "" {
			o["target_id"] = nameOf(object{})
		}
		out, err := c.events.PutTargets(ctx, &eventbridge.PutTargetsInput{Rule: o.stringPointer("rule"), Targets: []eventtypes.Target{{Id: o.stringPointer("target_id"), Arn: o.stringPointer("arn")}}})
		if err == nil && out.FailedEntryCount == 0 {
			o["id"] = o.stringValue("rule") + "-" + o.stringValue("target_id")
		}
		return err
	}
	return kind[*cloud]{
		name: "aws_cloudwatch_event_target",
		fields: map[string]field{
			"rule": forcingReplacement(requiredField(text)), "target_id": forcingReplacement(optionalComputed(text)), "arn": requiredField(text), "event_bus_name": forcingReplacement(withDefault("default")), "force_destroy": withDefault(false),
		},
		create: put,
		read: func(ctx context.Context, c *cloud, o object) error {
			out, err := c.events.ListTargetsByRule(ctx, &eventbridge.ListTargetsByRuleInput{Rule: o.stringPointer("rule")})
			if err != nil {
				return toErrGone(err)
			}
			for _, t := range out.Targets {
				if aws.ToString(t.Id) == o.stringValue("target_id") {
					o["arn"] = t.Arn
					return nil
				}
			}
			return errGone
		},
		update: func(ctx context.Context, c *cloud, _, o object) error { return put(ctx, c, o) },
		remove: func(ctx context.Context, c *cloud, o object) error {
			return errorOf(c.events.RemoveTargets(ctx, &eventbridge.RemoveTargetsInput{Rule: o.stringPointer("rule"), Ids: []string{o.stringValue("target_id")}}))
		},
	}
}
