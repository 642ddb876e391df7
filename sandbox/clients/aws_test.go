package clients

import (
	"os/exec"
	"testing"
)

func needAWS(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("aws"); err != nil {
		t.Skip("no aws in PATH; Debian's package awscli has one")
	}
}

// What an operator queries about an account.
func TestAWSReads(t *testing.T) {
	t.Parallel()
	needAWS(t)
	performSteps(t, []step{
		{name: "S-112 who am I", run: "aws sts get-caller-identity", want: []string{"111122223333", "arn:aws:"}},
		{name: "cluster", run: `aws eks describe-cluster --name "$CLUSTER_NAME"`, want: []string{`"ACTIVE"`, "https://127.0.0.1:", "certificateAuthority"}},
		{name: "no such cluster", run: "aws eks describe-cluster --name nothing", want: []string{"ResourceNotFoundException"}, fails: true},
		{
			name: "S-110 update-kubeconfig, looked at", run: `aws eks update-kubeconfig --region "$AWS_REGION" --name "$CLUSTER_NAME" --dry-run`,
			want: []string{"arn:aws:eks:eu-west-1:111122223333:cluster/sandbox", "get-token"},
		},
		{
			name: "S-110 context in ~/.kube/config", run: `(unset KUBECONFIG; aws eks update-kubeconfig --region "$AWS_REGION" --name "$CLUSTER_NAME"; kubectl config current-context); ls ~/.kube/config`,
			want: []string{"cluster/sandbox", ".kube/config"},
		},
		{name: "S-112 role", run: `aws iam get-role --role-name "KarpenterNodeRole-$CLUSTER_NAME"`, want: []string{"role/KarpenterNodeRole-sandbox", "ec2.amazonaws.com"}},
		{name: "S-112 no such role", run: "aws iam get-role --role-name nobody", want: []string{"NoSuchEntity"}, fails: true},
		{name: "S-112 instance profile", run: "aws iam get-instance-profile --instance-profile-name KarpenterNodeInstanceProfile", want: []string{"instance-profile/KarpenterNodeInstanceProfile", "KarpenterNodeInstanceRole"}},
		{
			name: "S-113 S-137 rules", run: "aws events list-rules --name-prefix Karpenter",
			want: []string{"EC2 Spot Instance Interruption Warning", "EC2 Instance Rebalance Recommendation", "EC2 Instance State-change Notification", "AWS Health Event", "ENABLED"},
		},
		{name: "S-113 targets", run: "aws events list-targets-by-rule --rule Karpenter-sandbox-SpotInterruptionRule", want: []string{":Karpenter-sandbox"}},
		{
			name: "types", run: "aws ec2 describe-instance-types --instance-types m5.large --query 'InstanceTypes[].[VCpuInfo.DefaultVCpus,MemoryInfo.SizeInMiB]' --output text",
			want: []string{"2\t8192"},
		},
		{name: "no such type", run: "aws ec2 describe-instance-types --instance-types m99.large", want: []string{"InvalidInstanceType"}, fails: true},
		{name: "every type, by pages", run: "aws ec2 describe-instance-types --query 'length(InstanceTypes) > `500`'", want: []string{"true"}},
		{name: "images", run: "aws ec2 describe-images --owners amazon --filters 'Name=name,Values=amazon-eks-node-al2023-x86_64-standard-1.37-*'", want: []string{"ami-", "x86_64", "available"}},
		{
			name: "price", run: "aws pricing get-products --region us-east-1 --service-code AmazonEC2 --filters Type=TERM_MATCH,Field=instanceType,Value=m5.large Type=TERM_MATCH,Field=regionCode,Value=eu-west-1",
			want: []string{"m5.large", "pricePerUnit", "USD"},
		},
		{name: "a spot price per zone", run: "aws ec2 describe-spot-price-history --instance-types m5.large --product-descriptions Linux/UNIX --start-time 2026-01-01T00:00:00Z --max-items 20", want: []string{"SpotPrice", "eu-west-1a"}},
	})
}

// The queue of interruption messages.
func TestAWSQueue(t *testing.T) {
	t.Parallel()
	needAWS(t)
	performSteps(t, []step{
		{name: "S-138 queue", run: `aws sqs get-queue-url --queue-name "Karpenter-$CLUSTER_NAME" --query QueueUrl --output text`, want: []string{"Karpenter-sandbox"}, save: "QUEUE"},
		{name: "S-113 attributes of the queue", run: `aws sqs get-queue-attributes --queue-url "$QUEUE" --attribute-names All`, want: []string{"QueueArn", ":Karpenter-sandbox", "ApproximateNumberOfMessages"}},
		{name: "S-138 no such queue", run: "aws sqs get-queue-url --queue-name nothing", want: []string{"NonExistentQueue"}, fails: true},
	})
}

// An instance by hand: it becomes a node, runs pods, is drained, and takes its node with it.
func TestAWSInstance(t *testing.T) {
	t.Parallel()
	needAWS(t)
	const discovery = "--filters Name=tag:karpenter.sh/discovery,Values=$CLUSTER_NAME"
	const ours = "--filters Name=tag:karpenter.sh/nodepool,Values=default Name=instance-state-name,Values=pending,running"
	performSteps(t, inNewNamespace("instance", []step{
		{name: "subnet", run: "aws ec2 describe-subnets " + discovery + " --query 'Subnets[0].SubnetId' --output text", want: []string{"subnet-"}, save: "SUBNET"},
		{name: "security group", run: "aws ec2 describe-security-groups " + discovery + " --query 'SecurityGroups[0].GroupId' --output text", want: []string{"sg-"}, save: "GROUP"},
		{
			name: "image", run: "aws ssm get-parameter --name /aws/service/eks/optimized-ami/1.37/amazon-linux-2023/x86_64/standard/recommended/image_id --query Parameter.Value --output text",
			want: []string{"ami-"}, save: "IMAGE",
		},
		{name: "authority", run: `aws eks describe-cluster --name "$CLUSTER_NAME" --query cluster.certificateAuthority.data --output text`, save: "AUTHORITY"},
		{name: "user data", run: `sed "s|ENDPOINT|$CLUSTER_ENDPOINT|; s|AUTHORITY|$AUTHORITY|" "$TESTDATA/user-data.txt" | base64 | tr -d '\n'`, save: "USER_DATA"},
		{
			name: "launch template", run: `aws ec2 create-launch-template --launch-template-name clients --launch-template-data "{` +
				`\"ImageId\":\"$IMAGE\",\"SecurityGroupIds\":[\"$GROUP\"],\"UserData\":\"$USER_DATA\",\"IamInstanceProfile\":{\"Name\":\"KarpenterNodeInstanceProfile\"}}"`,
			want: []string{`"LaunchTemplateName": "clients"`, "lt-"},
		},
		{
			name: "its content", run: "aws ec2 describe-launch-template-versions --launch-template-name clients --versions '$Latest'",
			want: []string{`"VersionNumber": 1`, "KarpenterNodeInstanceProfile", "ami-", "sg-"},
		},
		{
			name: "the name is taken", run: `aws ec2 create-launch-template --launch-template-name clients --launch-template-data "{\"ImageId\":\"$IMAGE\"}"`,
			want: []string{"InvalidLaunchTemplateName.AlreadyExistsException"}, fails: true,
		},
		{name: "S-111 work", run: `kubectl apply -f "$TESTDATA/inflate.yaml"`, want: []string{"deployment.apps/inflate created"}},
		{name: "S-095 no node for it", run: "kubectl get nodes -l karpenter.sh/nodepool", want: []string{"No resources found"}},
		{
			name: "fleet", run: `aws ec2 create-fleet --type instant --target-capacity-specification TotalTargetCapacity=1,DefaultTargetCapacityType=spot ` +
				`--spot-options AllocationStrategy=price-capacity-optimized --launch-template-configs "[{\"LaunchTemplateSpecification\":{\"LaunchTemplateName\":\"clients\",\"Version\":\"\$Latest\"},` +
				`\"Overrides\":[{\"InstanceType\":\"m5.large\",\"SubnetId\":\"$SUBNET\"}]}]" --tag-specifications 'ResourceType=instance,Tags=[{Key=karpenter.sh/nodepool,Value=default}]' ` +
				`--query 'Instances[0].InstanceIds[0]' --output text`,
			want: []string{"i-"}, save: "INSTANCE",
		},
		{name: "name", run: `aws ec2 describe-instances --instance-ids "$INSTANCE" --query 'Reservations[0].Instances[0].PrivateDnsName' --output text`, want: []string{".compute.internal"}, save: "NODE"},
		{name: "joined", run: `kubectl wait node "$NODE" --for=create --timeout=60s && kubectl wait node "$NODE" --for=condition=Ready --timeout=60s`},
		{name: "running", run: `aws ec2 wait instance-running --instance-ids "$INSTANCE"`},
		{name: "instance by its tag", run: "aws ec2 describe-instances " + ours + " --query 'Reservations[].Instances[].[InstanceId,InstanceType,InstanceLifecycle,State.Name]' --output text", want: []string{"i-", "m5.large", "spot", "running"}},
		{name: "its tags", run: `aws ec2 describe-tags --filters "Name=resource-id,Values=$INSTANCE"`, want: []string{"karpenter.sh/nodepool", "aws:ec2:fleet-id", `"instance"`}},
		{name: "its provider id", run: `test "$(kubectl get node "$NODE" -o jsonpath='{.spec.providerID}')" = "aws:///eu-west-1a/$INSTANCE"`},
		{name: "not registered, so no work", run: "kubectl wait pod -l app=inflate --for=jsonpath='{.status.conditions[?(@.type==\"PodScheduled\")].reason}'=Unschedulable --timeout=60s"},
		{name: "what a controller would do", run: `kubectl taint nodes "$NODE" karpenter.sh/unregistered:NoExecute-`, want: []string{"untainted"}},
		{name: "S-103 scale", run: "kubectl scale deployment inflate --replicas=5 && kubectl rollout status deployment inflate --timeout=60s", want: []string{"successfully rolled out"}},
		{name: "S-111 where", run: "kubectl get pods -o wide", want: []string{"inflate-", "Running", "ip-10-"}, avoid: []string{"bootstrap-"}},
		{name: "S-095 managed nodes", run: "kubectl get nodes -l karpenter.sh/nodepool", want: []string{"ip-10-", "Ready"}, avoid: []string{"bootstrap-"}},
		{name: "S-096 the same by the old label", run: "kubectl get nodes -l karpenter.sh/provisioner-name", want: []string{"ip-10-", "Ready"}, avoid: []string{"bootstrap-"}},
		{name: "S-097 labels", run: "kubectl get nodes --show-labels | grep karpenter", want: []string{"karpenter.sh/capacity-type=spot", "karpenter.sh/nodepool=default", "topology.kubernetes.io/zone=eu-west-1a"}},
		{name: "S-106 protect", run: `kubectl annotate node "$NODE" karpenter.sh/do-not-disrupt=true`, want: []string{"annotated"}},
		{
			name: "S-107 protected nodes", run: `kubectl get nodes -o jsonpath='{range .items[?(@.metadata.annotations.karpenter\.sh/do-not-disrupt=="true")]}{.metadata.name}{"\n"}{end}'`,
			want: []string{"ip-10-"}, avoid: []string{"bootstrap-"},
		},
		{name: "drain", run: `kubectl drain "$NODE" --ignore-daemonsets --timeout=60s`, want: []string{"evicting pod instance/inflate-", "drained"}},
		{name: "terminate", run: `aws ec2 terminate-instances --instance-ids "$INSTANCE"`, want: []string{"shutting-down"}},
		{name: "the node goes too", run: `kubectl wait node "$NODE" --for=delete --timeout=60s`},
		{name: "no instance by its tag", run: "aws ec2 describe-instances " + ours + " --query 'Reservations[].Instances[].InstanceId' --output text", avoid: []string{"i-"}},
		{name: "the template goes", run: "aws ec2 delete-launch-template --launch-template-name clients", want: []string{"clients"}},
	}))
}

// What guides have an operator to run in an account beside the cluster.
func TestTrust_D03_AWSAccount(t *testing.T) {
	t.Parallel()
	needAWS(t)
	performSteps(t, []step{
		{
			name: "the recommended image", run: "aws ssm get-parameter --name /aws/service/eks/optimized-ami/1.37/amazon-linux-2023/x86_64/standard/recommended/image_id --query Parameter.Value --output text",
			want: []string{"ami-"}, save: "IMAGE",
		},
		{name: "its release", run: `aws ec2 describe-images --image-ids "$IMAGE" --query 'Images[0].Name' --output text`, want: []string{"amazon-eks-node-al2023-x86_64-standard-1.37-v"}, save: "NAME"},
		{
			name: "pinned", run: `test "$(aws ssm get-parameter --name /aws/service/eks/optimized-ami/1.37/amazon-linux-2023/x86_64/standard/$NAME/image_id --query Parameter.Value --output text)" = "$IMAGE"`,
		},
		{name: "a copy", run: `aws ec2 copy-image --name clients --source-image-id "$IMAGE" --source-region eu-west-1 --query ImageId --output text`, want: []string{"ami-"}, save: "COPY"},
		{name: "deprecated some day", run: `aws ec2 enable-image-deprecation --image-id "$COPY" --deprecate-at 2099-01-01T00:00:00Z`, want: []string{"true"}},
		{name: "the copy goes", run: `aws ec2 deregister-image --image-id "$COPY"`},
		{
			name: "reserve", run: "aws ec2 create-capacity-reservation --instance-type m5.large --instance-platform Linux/UNIX --availability-zone eu-west-1c --instance-count 1 --query CapacityReservation.CapacityReservationId --output text",
			want: []string{"cr-"}, save: "RESERVATION",
		},
		{name: "cancel", run: `aws ec2 cancel-capacity-reservation --capacity-reservation-id "$RESERVATION"`, want: []string{"true"}},
		{name: "placement group", run: "aws ec2 create-placement-group --group-name clients --strategy spread && aws ec2 delete-placement-group --group-name clients", want: []string{`"available"`}},
		{name: "security group", run: "aws ec2 create-security-group --group-name clients --description clients --query GroupId --output text", want: []string{"sg-"}, save: "GROUP"},
		{name: "its rules", run: `aws ec2 authorize-security-group-ingress --group-id "$GROUP" --protocol tcp --port 443 --cidr 10.0.0.0/8 && aws ec2 delete-security-group --group-id "$GROUP"`},
		{
			name: "an instance", run: `aws ec2 run-instances --image-id "$IMAGE" --instance-type m5.large --instance-market-options MarketType=spot --query 'Instances[0].InstanceId' --output text`,
			want: []string{"i-"}, save: "INSTANCE",
		},
		{name: "runs", run: `aws ec2 wait instance-running --instance-ids "$INSTANCE"`},
		{
			name: "its volumes", run: `aws ec2 describe-volumes --filters "Name=attachment.instance-id,Values=$INSTANCE" --query 'Volumes[].[Size,VolumeType,State]' --output text`,
			want: []string{"20\tgp3\tin-use"},
		},
		{
			name: "its interfaces", run: `aws ec2 describe-network-interfaces --filters "Name=attachment.instance-id,Values=$INSTANCE" --query 'NetworkInterfaces[].Attachment.DeviceIndex' --output text`,
			want: []string{"0"},
		},
		{
			name: "an experiment", run: `aws fis create-experiment-template --role-arn arn:aws:iam::111122223333:role/fis --description clients --stop-conditions source=none --query experimentTemplate.id --output text ` +
				`--targets "{\"it\":{\"resourceType\":\"aws:ec2:spot-instance\",\"selectionMode\":\"ALL\",\"resourceArns\":[\"arn:aws:ec2:eu-west-1:111122223333:instance/$INSTANCE\"]}}" ` +
				`--actions '{"interrupt":{"actionId":"aws:ec2:send-spot-instance-interruptions","parameters":{"durationBeforeInterruption":"PT15M"},"targets":{"SpotInstances":"it"}}}'`,
			want: []string{"EXT"}, save: "EXPERIMENT",
		},
		{name: "start", run: `aws fis start-experiment --experiment-template-id "$EXPERIMENT"`, want: []string{"running"}},
		{
			name: "the spot request", run: `aws ec2 describe-spot-instance-requests --filters "Name=instance-id,Values=$INSTANCE" --query 'SpotInstanceRequests[].Status.Code' --output text`,
			want: []string{"fulfilled"},
		},
		{name: "terminate", run: `aws ec2 terminate-instances --instance-ids "$INSTANCE"`, want: []string{"shutting-down"}},
		{name: "ends", run: `aws ec2 wait instance-terminated --instance-ids "$INSTANCE"`},
		{
			name: "why", run: `aws ec2 describe-instances --instance-ids "$INSTANCE" --query 'Reservations[0].Instances[0].StateTransitionReason' --output text`,
			want: []string{"User initiated"},
		},
	})
}
