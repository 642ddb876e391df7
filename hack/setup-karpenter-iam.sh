#!/usr/bin/env bash
# Makes, checks and deletes what an AWS account must have for the controller: roles, policies, instance profile, access
# entry, and on request the interruption queue with its rules and the role for spot. See setup-karpenter-iam.sh --help.
#
# The policies are the JSON documents in iam/. Each step reads first and writes only what is missing or differs, and what
# is made carries its mark from the first moment; so the script can be interrupted at any point and run again.
# It needs aws and standard tools only, and runs with the bash 3.2 of macOS.
set -euo pipefail
export AWS_PAGER='' # version 2 would open one

documents=$(cd "$(dirname "${BASH_SOURCE[0]}")/../iam" 2>/dev/null && pwd) || documents=
readonly documents
readonly me=setup-karpenter-iam
readonly spot_role=AWSServiceRoleForEC2Spot
readonly target_id=KarpenterInterruptionQueueTarget
# Files of iam/, and what AWS calls them: with the name of the cluster at the end, or in the middle.
readonly policies='node-lifecycle:KarpenterControllerNodeLifecyclePolicy iam-integration:KarpenterControllerIAMIntegrationPolicy
	eks-integration:KarpenterControllerEKSIntegrationPolicy interruption:KarpenterControllerInterruptionPolicy
	zonal-shift:KarpenterControllerZonalShiftPolicy resource-discovery:KarpenterControllerResourceDiscoveryPolicy'
readonly rules='scheduled-change:ScheduledChangeRule spot-interruption:SpotInterruptionRule rebalance:RebalanceRule
	instance-state-change:InstanceStateChangeRule capacity-reservation-interruption:CapacityReservationInterruptionRule'

usage() {
	cat <<-'END'
		usage: setup-karpenter-iam.sh create|delete|status [flags]

		  create   makes what is missing and updates what it made before; safe to run again, also after an interruption
		  status   says of each resource whether it is there and right; exit code 1 if something is missing or wrong
		  delete   deletes what create made for this cluster and nothing else; refuses while instances of NodePools run

		flags:
		  --namespace NAME         namespace of the controller (kube-system)
		  --service-account NAME   service account of the controller (karpenter)
		  --auth MODE              how the controller gets its role: pod-identity or irsa (pod-identity)
		  --controller-role NAME   role of the controller (KarpenterControllerRole-$CLUSTER_NAME)
		  --node-role NAME         role of the nodes (KarpenterNodeInstanceRole)
		  --instance-profile NAME  instance profile with the role of the nodes (KarpenterNodeInstanceProfile)
		  --no-access-entry        make no access entry: the ConfigMap aws-auth has the role of the nodes; --access-entry undoes it
		  --queue                  make the interruption queue and the rules that fill it
		  --queue-name NAME        name of the queue (Karpenter-$CLUSTER_NAME); implies --queue
		  --spot-role              make the service-linked role for spot instances; it is the account's, delete keeps it
		  --dry-run                read, print the calls that would write, and make none of them
		  --help                   print this

		environment:
		  CLUSTER_NAME        name of the EKS cluster
		  AWS_DEFAULT_REGION  its region
		  RETRY_SECONDS       pause before a call is repeated because AWS does not know yet what was made a moment ago (5)

		What a flag does not say is as in the last create, which the tags of the controller's role tell, or the default.
	END
}

# ---- Messages ----

# die MESSAGE [FIX...]
die() {
	printf 'error: %s\n' "$1" >&2
	shift
	(($# == 0)) || printf '       %s\n' "$@" >&2
	exit 1
}

# report WORD WHAT [NOTE] prints one line of progress.
report() {
	printf '%-8s %s%s\n' "$1" "$2" "${3:+: $3}"
}

# differ WHAT NOTE says that something is not as it should be, and is not ours to change.
differ() {
	faults=$((faults + 1))
	report wrong "$1" "$2"
}

# ---- Calls ----

run() {
	aws --region "$region" --output "${output:-text}" "$@" 2>"$errors"
}

# look CALL... reads: sets answer, or returns 1 if there is no such thing.
look() {
	if answer=$(run "$@"); then
		return 0
	fi
	answer=
	read_error
	case $code in
	NoSuchEntity | ResourceNotFoundException | NotFoundException | *NonExistentQueue | QueueDoesNotExist) return 1 ;;
	esac
	fail "$@"
}

# attempt CALL... writes: sets answer, or returns 1 after an error. That something exists already, or is gone already, is
# what was wanted. All of AWS knows of a new role only after some seconds: until then the call is repeated.
attempt() {
	local tries=12
	while ! answer=$(run "$@"); do
		read_error
		case "$2 $code $message" in
		create-*' EntityAlreadyExists '* | create-*' ResourceInUseException '* | create-*'has been taken'*) return 0 ;;
		delete-*' NoSuchEntity '* | detach-*' NoSuchEntity '* | remove-*' NoSuchEntity '*) return 0 ;;
		delete-*' ResourceNotFoundException '* | remove-*' ResourceNotFoundException '* | delete-*NonExistentQueue* | delete-*QueueDoesNotExist*) return 0 ;;
		*' NoSuchEntity '* | *QueueDeletedRecently* | *' ConcurrentModification'* | create-*' InvalidParameterException '*rincipal* | create-*' InvalidParameterException '*'does not exist'*) ;;
		*) return 1 ;;
		esac
		((--tries > 0)) || return 1
		report waiting "aws $1 $2" "$message"
		sleep "${RETRY_SECONDS:-5}"
	done
}

# read_error sets code, operation and message from what aws printed.
read_error() {
	message=$(tr '\n' ' ' <"$errors" | sed 's/^ *//; s/ *$//')
	code='' operation=''
	if [[ $message =~ An\ error\ occurred\ \(([^\)]+)\)\ when\ calling\ the\ ([A-Za-z]+)\ operation ]]; then
		code=${BASH_REMATCH[1]} operation=${BASH_REMATCH[2]}
		message=${message#*operation}
		message=${message#*: }
	fi
}

# fail CALL... ends the script after an error of aws, and says what to do.
fail() {
	case "$code $message" in
	AccessDenied* | UnauthorizedOperation* | AuthorizationError*)
		die "aws $1 $2: $message" "Allow the action $1:$operation to ${caller:-these credentials}, or use other credentials." \
			'Then run the same command again: it goes on where it stopped.'
		;;
	ExpiredToken* | RequestExpired* | InvalidClientTokenId* | UnrecognizedClientException* | AuthFailure* | SignatureDoesNotMatch* | *'ocate credentials'*)
		die "aws $1 $2: $message" 'Log in to AWS with aws configure or aws sso login, and run the same command again.'
		;;
	*'nvalid choice'*)
		die "aws $1 $2: this version of aws does not know it: $(aws --version 2>&1)" \
			'Install 2.15 or 1.32, or later. With an older one, --auth irsa --no-access-entry works.'
		;;
	*'onnect to the endpoint'*)
		die "aws $1 $2: $message" "Is AWS_DEFAULT_REGION=$region the name of a region, and is there a network?"
		;;
	esac
	die "aws $1 $2: ${code:+$code: }$message"
}

# change WORD WHAT CALL... makes a call that writes, and reports it with WORD: created, updated, deleted or kept.
# status reports instead what is missing or wrong, and --dry-run the call.
change() {
	local word=$1 what=$2
	shift 2
	if [[ $command == status && $word == created ]]; then
		faults=$((faults + 1))
		report missing "$what"
	elif [[ $command == status ]]; then
		differ "$what" 'not as create makes it'
	elif [[ -n $dry_run ]]; then
		answer=
		printf 'would run: aws --region %s' "$region"
		printf ' %q' "$@"
		printf '\n'
	else
		attempt "$@" || fail "$@"
		report "$word" "$what"
	fi
}

# ---- Documents ----

# fill FILE reads a document of iam/ and puts the values in: sets document.
fill() {
	document=$(cat "$documents/$1")
	local pair
	for pair in "partition=$partition" "region=$region" "account_id=$account" "cluster_name=$cluster" "node_role_name=${node_role_arn#*:role/}" \
		"queue_name=$queue" "oidc_provider=$oidc_provider" "namespace=$namespace" "service_account=$service_account"; do
		document=${document//"\${${pair%%=*}}"/${pair#*=}}
	done
	[[ $document != *"\${"* ]] || die "iam/$1 has a placeholder that this script does not know: \$${document#*\$}" 'Use the script and the folder iam of one release.'
}

# squeeze TEXT prints it without white space, so that documents can be compared.
squeeze() { tr -d '[:space:]' <<<"$1"; }

# oneline DOCUMENT prints it in one line; white space within strings stays.
oneline() { printf '%s\n' "$1" | sed 's/^[[:space:]]*//' | tr -d '\n'; }

# quote DOCUMENT prints it as a string of JSON.
quote() {
	local text
	text=$(oneline "$1")
	printf '"%s"' "${text//\"/\\\"}"
}

# words DOCUMENT prints its strings, sorted: IAM reorders a trust policy and drops brackets, and keeps these.
words() { grep -o '"[^"]*"' <<<"$1" | sort; }

# ---- Marks ----

# What create makes has the tag setup-karpenter-iam/REGION/CLUSTER. What several clusters share has one for each.

ours() { [[ $1 == *"\"$me/"* ]]; }

marked() { [[ $1 == *"\"$mark\""* ]]; }

# others TAGS prints REGION/CLUSTER of the other clusters that something was made for.
others() {
	tr ',' '\n' <<<"$1" | tr -d '[]{}"' | sed -n "s|^$me/||p" | sed 's/:true$//' | grep -vxF "${mark#"$me"/}" | tr '\n' ' ' || true
}

# share WHAT TAGS [CALL...] reports that something exists. CALL tags what is ours and is to be used by this cluster too.
share() {
	local what=$1 tags=$2
	shift 2
	if ! ours "$tags"; then
		report exists "$what" 'not made by this script, left as it is'
	elif marked "$tags" || (($# == 0)); then
		report exists "$what"
	else
		change updated "$what" "$@" --tags "Key=$mark,Value=true"
	fi
}

# releasable WHAT TAGS [CALL...] tells whether something may be deleted. If other clusters use it, CALL takes our tag off.
releasable() {
	local what=$1 tags=$2 rest
	shift 2
	if ! marked "$tags"; then
		report kept "$what" "not made by this script for the cluster $cluster"
		return 1
	fi
	rest=$(others "$tags")
	if [[ -n $rest ]] && (($# > 0)); then
		change kept "$what: used by ${rest% }" "$@" --tag-keys "$mark"
		return 1
	fi
}

# ---- Create and status ----

ensure_spot_role() {
	if look iam get-role --role-name "$spot_role" --query Role.RoleName; then
		report exists "role $spot_role"
	else
		change created "role $spot_role" iam create-service-linked-role --aws-service-name spot.amazonaws.com
	fi
}

ensure_oidc_provider() {
	local what="OIDC provider $oidc_provider" clients tags
	if ! look iam get-open-id-connect-provider --open-id-connect-provider-arn "$oidc_arn" --query '[to_string(ClientIDList),to_string(Tags[].Key)]'; then
		# AWS checks the certificate of EKS itself; older versions of aws insist on a thumbprint.
		change created "$what" iam create-open-id-connect-provider --url "https://$oidc_provider" --client-id-list sts.amazonaws.com \
			--thumbprint-list 9e99a48a9960b14926bb7f3b02e22da2b0ab7280 --tags "Key=$mark,Value=true"
		return
	fi
	IFS=$'\t' read -r clients tags <<<"$answer"
	share "$what" "$tags"
	if [[ $clients != *'"sts.amazonaws.com"'* ]]; then
		change updated "audience sts.amazonaws.com of the $what" iam add-client-id-to-open-id-connect-provider \
			--open-id-connect-provider-arn "$oidc_arn" --client-id sts.amazonaws.com
	fi
}

# find_role NAME returns 1 if there is no such role: sets arn, trust, tags (keys) and remembered (keys and values).
find_role() {
	look iam get-role --role-name "$1" \
		--query "Role.[Arn,to_string(AssumeRolePolicyDocument),to_string(Tags[].Key),to_string(Tags[].join('=',[Key,Value]))]" || return 1
	IFS=$'\t' read -r arn trust tags remembered <<<"$answer"
}

# ensure_role WHAT NAME TRUST [TAG...] makes a role, and corrects trust and tags of one that is ours: sets arn and tags.
ensure_role() {
	local what="$1 $2" name=$2 tag missing
	fill "$3"
	shift 3
	missing=()
	if ! find_role "$name"; then
		arn="arn:$partition:iam::$account:role/$name" tags="[\"$mark\"]"
		change created "$what" iam create-role --role-name "$name" --assume-role-policy-document "$document" \
			--description "Made by $me.sh" --tags "Key=$mark,Value=true" ${@+"$@"}
		return
	fi
	if [[ $name == "$controller_role" ]] && ours "$tags" && ! marked "$tags"; then
		die "the role $name was made for the cluster $(others "$tags")" 'Names in IAM hold in all regions of an account: each cluster needs a name of its own, and a role of its own for the controller.'
	fi
	share "$what" "$tags" iam tag-role --role-name "$name"
	if [[ $(words "$document") == "$(words "$trust")" ]]; then
		:
	elif ours "$tags"; then
		change updated "trust of the $what" iam update-assume-role-policy --role-name "$name" --policy-document "$document"
	else
		differ "trust of the $what" 'not that of iam/trust; correct it, or choose another role'
	fi
	for tag; do
		[[ $remembered == *"\"$(sed 's/^Key=//; s/,Value=/=/' <<<"$tag")\""* ]] || missing+=("$tag")
	done
	if ours "$tags" && ((${#missing[@]} > 0)); then
		change updated "tags of the $what" iam tag-role --role-name "$name" --tags "${missing[@]}"
	fi
}

# attach WHAT ROLE TAGS ARN... attaches the policies that a role does not have.
attach() {
	local what=$1 role=$2 tags=$3 policy attached
	shift 3
	attached_to "$role"
	for policy; do
		if [[ $attached == *" $policy "* ]]; then
			continue
		elif ours "$tags"; then
			change created "policy ${policy##*/} of the $what $role" iam attach-role-policy --role-name "$role" --policy-arn "$policy"
		else
			differ "policy ${policy##*/} of the $what $role" "not attached; run aws iam attach-role-policy --role-name $role --policy-arn $policy"
		fi
	done
}

# attached_to ROLE sets attached: the ARNs of its policies, with blanks around.
attached_to() {
	look iam list-attached-role-policies --role-name "$1" --query 'AttachedPolicies[].PolicyArn' || true
	attached=$(tr '[:space:]' ' ' <<<" $answer ")
}

ensure_controller_role() {
	local arn trust tags remembered settings
	settings=("Key=$me:namespace,Value=$namespace" "Key=$me:service-account,Value=$service_account" "Key=$me:auth,Value=$auth"
		"Key=$me:access-entry,Value=$access_entry" "Key=$me:node-role,Value=$node_role" "Key=$me:instance-profile,Value=$instance_profile")
	[[ -z $with_queue ]] || settings+=("Key=$me:queue-name,Value=$queue_name")
	[[ $auth != irsa ]] || ensure_oidc_provider
	ensure_role 'role of the controller' "$controller_role" "trust/controller-$auth.json" "${settings[@]}"
	controller_role_arn=$arn controller_tags=$tags
}

ensure_node_role() {
	local arn trust tags remembered policy arns=()
	ensure_role 'role of the nodes' "$node_role" trust/node.json
	node_role_arn=$arn
	while read -r policy; do
		arns+=("arn:$partition:iam::aws:policy/$policy")
	done <"$documents/managed-policies.txt"
	attach 'role of the nodes' "$node_role" "$tags" "${arns[@]}"
}

# find_profile returns 1 if there is no such instance profile: sets roles and tags.
find_profile() {
	look iam get-instance-profile --instance-profile-name "$instance_profile" --query 'InstanceProfile.[to_string(Roles[].RoleName),to_string(Tags[].Key)]' || return 1
	IFS=$'\t' read -r roles tags <<<"$answer"
}

ensure_instance_profile() {
	local what="instance profile $instance_profile" roles='[]' tags="[\"$mark\"]"
	if find_profile; then
		share "$what" "$tags" iam tag-instance-profile --instance-profile-name "$instance_profile"
	else
		change created "$what" iam create-instance-profile --instance-profile-name "$instance_profile" --tags "Key=$mark,Value=true"
	fi
	if [[ $roles == *"\"$node_role\""* ]]; then
		return
	elif [[ $roles == '[]' ]] && ours "$tags"; then
		change created "role $node_role of the $what" iam add-role-to-instance-profile --instance-profile-name "$instance_profile" --role-name "$node_role"
	else
		differ "$what" "it holds the roles $roles and not $node_role; choose another one with --instance-profile"
	fi
}

# find_access_entry returns 1 if there is none: sets kind and tags.
find_access_entry() {
	look eks describe-access-entry --cluster-name "$cluster" --principal-arn "$node_role_arn" --query 'accessEntry.[type,to_string(tags)]' || return 1
	IFS=$'\t' read -r kind tags <<<"$answer"
}

ensure_access_entry() {
	local what="access entry of $node_role" kind tags
	if ! find_access_entry; then
		change created "$what" eks create-access-entry --cluster-name "$cluster" --principal-arn "$node_role_arn" --type EC2_LINUX --tags "{\"$mark\":\"true\"}"
	elif [[ $kind == EC2_LINUX || $kind == EC2_WINDOWS ]]; then
		share "$what" "$tags"
	else
		differ "$what" "its type is $kind, and nodes join with EC2_LINUX; delete it with aws eks delete-access-entry, and run create again"
	fi
}

# list_policies sets known: the ARNs of the policies of the account, with blanks around.
list_policies() {
	look iam list-policies --scope Local --query 'Policies[].Arn' || true
	known=$(tr '[:space:]' ' ' <<<" $answer ")
}

policy_arn() { printf 'arn:%s:iam::%s:policy/%s-%s' "$partition" "$account" "$1" "$cluster"; }

ensure_policies() {
	local pair arn known arns=()
	list_policies
	for pair in $policies; do
		arn=$(policy_arn "${pair#*:}")
		arns+=("$arn")
		fill "policies/${pair%%:*}.json"
		if [[ $known == *" $arn "* ]]; then
			compare_policy "$arn"
		else
			change created "policy ${arn##*/}" iam create-policy --policy-name "${arn##*/}" --policy-document "$document" \
				--description "Made by $me.sh" --tags "Key=$mark,Value=true"
		fi
	done
	attach 'role of the controller' "$controller_role" "$controller_tags" "${arns[@]}"
}

# compare_policy ARN brings a policy that exists up to date with document.
compare_policy() {
	local arn=$1 what="policy ${1##*/}" version tags
	look iam get-policy --policy-arn "$arn" --query 'Policy.[DefaultVersionId,to_string(Tags[].Key)]' || return 0
	IFS=$'\t' read -r version tags <<<"$answer"
	look iam get-policy-version --policy-arn "$arn" --version-id "$version" --query 'to_string(PolicyVersion.Document)' || true
	if [[ $(squeeze "$answer") == "$(squeeze "$document")" ]]; then
		share "$what" "$tags"
	elif ours "$tags"; then
		[[ $command == status ]] || prune_versions "$arn" 3
		change updated "$what" iam create-policy-version --policy-arn "$arn" --policy-document "$document" --set-as-default
	else
		differ "$what" 'not made by this script, and not that of iam/policies; update it with what made it'
	fi
}

# prune_versions ARN KEEP deletes the oldest versions of a policy that are not in use: IAM has room for five of all.
prune_versions() {
	local arn=$1 keep=$2 version versions
	look iam list-policy-versions --policy-arn "$arn" --query 'sort_by(Versions[?!IsDefaultVersion],&CreateDate)[].VersionId' || true
	read -ra versions <<<"$(tr '[:space:]' ' ' <<<"$answer")"
	while ((${#versions[@]} > keep)); do
		version=${versions[0]} versions=("${versions[@]:1}")
		change deleted "version $version of the policy ${arn##*/}" iam delete-policy-version --policy-arn "$arn" --version-id "$version"
	done
}

# find_association returns 1 if the service account has none: sets association, role and tags.
find_association() {
	look eks list-pod-identity-associations --cluster-name "$cluster" --namespace "$namespace" --service-account "$service_account" \
		--query 'associations[].associationId' || return 1
	association=$answer
	[[ -n $association && $association != None ]] || return 1
	look eks describe-pod-identity-association --cluster-name "$cluster" --association-id "$association" --query 'association.[roleArn,to_string(tags)]' || return 1
	IFS=$'\t' read -r role tags <<<"$answer"
}

ensure_association() {
	local what="pod identity association of $namespace/$service_account" association role tags
	if ! find_association; then
		change created "$what" eks create-pod-identity-association --cluster-name "$cluster" --namespace "$namespace" --service-account "$service_account" \
			--role-arn "$controller_role_arn" --tags "{\"$mark\":\"true\"}"
	elif [[ $role == "$controller_role_arn" ]]; then
		share "$what" "$tags"
	elif ours "$tags"; then
		change updated "$what" eks update-pod-identity-association --cluster-name "$cluster" --association-id "$association" --role-arn "$controller_role_arn"
	else
		differ "$what" "it gives the role ${role##*/}; delete it and run create again, or name that role with --controller-role"
	fi
	if ! look eks describe-addon --cluster-name "$cluster" --addon-name eks-pod-identity-agent --query addon.status; then
		report note 'add-on eks-pod-identity-agent' "not installed; unless the agent runs otherwise, run aws eks create-addon --cluster-name $cluster --addon-name eks-pod-identity-agent"
	fi
}

# find_queue returns 1 if there is none: sets url and tags.
find_queue() {
	look sqs get-queue-url --queue-name "$queue_name" --query QueueUrl || return 1
	url=$answer
	look sqs list-queue-tags --queue-url "$url" --query 'to_string(Tags)' || return 1
	tags=$answer
}

ensure_queue() {
	local what="queue $queue_name" url tags attributes retention encrypted
	fill queue-policy.json
	attributes="{\"MessageRetentionPeriod\":\"300\",\"VisibilityTimeout\":\"60\",\"SqsManagedSseEnabled\":\"true\",\"Policy\":$(quote "$document")}"
	if ! find_queue; then
		change created "$what" sqs create-queue --queue-name "$queue_name" --attributes "$attributes" --tags "{\"$mark\":\"true\"}"
		return
	fi
	look sqs get-queue-attributes --queue-url "$url" --attribute-names All \
		--query 'Attributes.[MessageRetentionPeriod,KmsMasterKeyId||SqsManagedSseEnabled,to_string(Policy)]' || true
	IFS=$'\t' read -r -d '' retention encrypted answer <<<"$answer" || true
	if [[ $retention == 300 && $encrypted != [Ff]alse && $(squeeze "$answer") == "$(squeeze "$document")" ]]; then
		share "$what" "$tags"
	elif ours "$tags"; then
		change updated "$what" sqs set-queue-attributes --queue-url "$url" --attributes "$attributes"
	else
		differ "$what" 'not made by this script: its retention is not 300 seconds, it is not encrypted, or its policy is not iam/queue-policy.json'
	fi
}

# rule_name NAME prints Karpenter-CLUSTER-NAME, which may have 64 characters: of a longer one, a part of the cluster's name
# gives way to a checksum.
rule_name() {
	local room=$((64 - 11 - ${#1})) part=$cluster sum
	if ((${#part} > room)); then
		sum=$(cksum <<<"$cluster")
		sum=${sum%% *}
		part="${cluster:0:room-${#sum}-1}-$sum"
	fi
	printf 'Karpenter-%s-%s' "$part" "$1"
}

# list_rules sets known: names, states, descriptions and patterns of rules, as JSON without white space.
list_rules() {
	output=json look events list-rules --name-prefix Karpenter- --query 'Rules[].[Name,State,Description,EventPattern]' || true
	known=$(squeeze "$answer")
}

# find_rule NAME returns 1 if there is no such rule in known: sets state, note and pattern, each as JSON.
find_rule() {
	local row=${known#*"[\"$1\","}
	[[ $row != "$known" ]] || return 1
	state=${row%%,*} row=${row#*,}
	note=${row%%',"{'*}
	pattern=${row#"$note,"}
}

# The tags of rules cannot be listed with them, so that their description says the same.
rule_note() { printf 'Made by %s.sh for %s' "$me" "${mark#"$me"/}"; }

ensure_rules() {
	local pair name known state note pattern filled queue_arn="arn:$partition:sqs:$region:$account:$queue_name"
	list_rules
	look events list-rule-names-by-target --target-arn "$queue_arn" --query 'RuleNames[]' || true
	filled=$(tr '[:space:]' ' ' <<<" $answer ")
	for pair in $rules; do
		name=$(rule_name "${pair#*:}")
		fill "event-rules/${pair%%:*}.json"
		if ! find_rule "$name"; then
			change created "rule $name" events put-rule --name "$name" --event-pattern "$(oneline "$document")" \
				--description "$(rule_note)" --tags "Key=$mark,Value=true"
		elif [[ $state == '"ENABLED"' && $pattern == "$(squeeze "$(quote "$document")")]"* ]]; then
			report exists "rule $name"
		elif [[ $note == "\"$(squeeze "$(rule_note)")\"" ]]; then
			change updated "rule $name" events put-rule --name "$name" --event-pattern "$(oneline "$document")" --description "$(rule_note)"
		else
			differ "rule $name" 'not made by this script: it is disabled, or its pattern is not that of iam/event-rules'
		fi
		if [[ $filled != *" $name "* ]]; then
			change created "target $queue_name of the rule $name" events put-targets --rule "$name" --targets "Id=$target_id,Arn=$queue_arn" --query FailedEntryCount
			[[ $command != create || -n $dry_run || $answer == 0 ]] || die "aws events put-targets: the rule $name does not take the queue $queue_name"
		fi
	done
}

# ---- Delete ----

# refuse_if_used ends the script while instances use what is to be deleted.
refuse_if_used() {
	look ec2 describe-instances --filters "Name=tag:kubernetes.io/cluster/$cluster,Values=owned" Name=tag-key,Values=karpenter.sh/nodepool \
		Name=instance-state-name,Values=pending,running,stopping,stopped --query 'Reservations[].Instances[].InstanceId' || true
	[[ -z ${answer//None/} ]] || die "instances of NodePools of the cluster $cluster run: $(tr '[:space:]' ' ' <<<"$answer")" \
		'Delete the NodePools while the controller runs (kubectl delete nodepools --all), wait until the nodes are gone, and run this again.'
}

delete_rules() {
	local pair name known state note pattern
	list_rules
	for pair in $rules; do
		name=$(rule_name "${pair#*:}")
		if ! find_rule "$name"; then
			report absent "rule $name"
		elif [[ $note == "\"$(squeeze "$(rule_note)")\"" ]]; then
			change deleted "target $queue_name of the rule $name" events remove-targets --rule "$name" --ids "$target_id"
			change deleted "rule $name" events delete-rule --name "$name"
		else
			report kept "rule $name" "not made by this script for the cluster $cluster"
		fi
	done
}

delete_queue() {
	local what="queue $queue_name" url tags
	if ! find_queue; then
		report absent "$what"
	elif releasable "$what" "$tags"; then
		change deleted "$what" sqs delete-queue --queue-url "$url"
	fi
}

delete_association() {
	local what="pod identity association of $namespace/$service_account" association role tags
	if ! find_association; then
		report absent "$what"
	elif releasable "$what" "$tags"; then
		change deleted "$what" eks delete-pod-identity-association --cluster-name "$cluster" --association-id "$association"
	fi
}

delete_access_entry() {
	local what="access entry of $node_role" kind tags
	if ! find_access_entry; then
		report absent "$what"
	elif releasable "$what" "$tags"; then
		change deleted "$what" eks delete-access-entry --cluster-name "$cluster" --principal-arn "$node_role_arn"
	fi
}

delete_instance_profile() {
	local what="instance profile $instance_profile" roles tags role
	if ! find_profile; then
		report absent "$what"
	elif releasable "$what" "$tags" iam untag-instance-profile --instance-profile-name "$instance_profile"; then
		for role in $(tr -d '[]"' <<<"$roles" | tr ',' ' '); do
			change deleted "role $role of the $what" iam remove-role-from-instance-profile --instance-profile-name "$instance_profile" --role-name "$role"
		done
		change deleted "$what" iam delete-instance-profile --instance-profile-name "$instance_profile"
	fi
}

# detach ROLE detaches all policies of a role that are not detached yet, in a dry run too.
detach() {
	local policy attached
	attached_to "$1"
	for policy in $attached; do
		[[ $detached != *" $policy "* ]] || continue
		change deleted "policy ${policy##*/} of the role $1" iam detach-role-policy --role-name "$1" --policy-arn "$policy"
	done
}

delete_node_role() {
	local what="role of the nodes $node_role" arn trust tags remembered
	if ! find_role "$node_role"; then
		report absent "$what"
	elif releasable "$what" "$tags" iam untag-role --role-name "$node_role"; then
		look iam list-instance-profiles-for-role --role-name "$node_role" --query "InstanceProfiles[?InstanceProfileName!='$instance_profile'].InstanceProfileName" || true
		if [[ -n ${answer//None/} ]]; then
			differ "$what" "kept, since instance profiles hold it: $(tr '[:space:]' ' ' <<<"$answer"). Delete the EC2NodeClasses that made them (kubectl delete ec2nodeclasses --all), and run this again"
			return
		fi
		detach "$node_role"
		change deleted "$what" iam delete-role --role-name "$node_role"
	fi
}

# delete_policies takes our policies off the role of the controller and deletes them. Policies that are not ours stay where
# they are.
delete_policies() {
	local pair arn known attached
	list_policies
	attached_to "$controller_role"
	for pair in $policies; do
		arn=$(policy_arn "${pair#*:}")
		if [[ $known != *" $arn "* ]] || ! look iam get-policy --policy-arn "$arn" --query 'to_string(Policy.Tags[].Key)'; then
			report absent "policy ${arn##*/}"
		elif releasable "policy ${arn##*/}" "$answer"; then
			if [[ $attached == *" $arn "* ]]; then
				change deleted "policy ${arn##*/} of the role $controller_role" iam detach-role-policy --role-name "$controller_role" --policy-arn "$arn"
				detached+="$arn "
			fi
			prune_versions "$arn" 0
			change deleted "policy ${arn##*/}" iam delete-policy --policy-arn "$arn"
		fi
	done
}

delete_oidc_provider() {
	local what="OIDC provider ${oidc_arn#*/}" users
	if [[ -z $oidc_arn ]] || ! look iam get-open-id-connect-provider --open-id-connect-provider-arn "$oidc_arn" --query 'to_string(Tags[].Key)' || ! marked "$answer"; then
		return
	fi
	look iam list-roles --query "Roles[?contains(to_string(AssumeRolePolicyDocument),'$oidc_arn')].RoleName" || true
	users=$(tr '[:space:]' '\n' <<<"$answer" | grep -vxF -e "$controller_role" -e None | tr '\n' ' ' || true)
	if [[ -n ${users// /} ]]; then
		report kept "$what" "other roles trust it: $users"
	else
		change deleted "$what" iam delete-open-id-connect-provider --open-id-connect-provider-arn "$oidc_arn"
	fi
}

delete_controller_role() {
	local what="role of the controller $controller_role" arn trust tags remembered
	if ! find_role "$controller_role"; then
		report absent "$what"
	elif releasable "$what" "$tags"; then
		detach "$controller_role"
		change deleted "$what" iam delete-role --role-name "$controller_role"
	fi
}

# ---- Command line ----

readonly flags='--namespace --service-account --auth --controller-role --node-role --instance-profile --access-entry --no-access-entry --queue --queue-name --spot-role --dry-run --help'

# unknown FLAG ends the script, with the flags that begin alike.
unknown() {
	local flag short=${1//[-_]/} alike=
	for flag in $flags; do
		[[ ${flag//-/} != "${short:0:4}"* ]] || alike="$alike $flag"
	done
	[[ -n $short && -n $alike ]] || alike=" $flags"
	die "unknown flag $1" "Did you mean one of:$alike? See --help."
}

command='' dry_run='' access_entry='' with_queue='' with_spot_role=''
namespace='' service_account='' auth='' controller_role='' node_role='' instance_profile='' queue_name=''

parse() {
	local flag value
	while (($# > 0)); do
		flag=${1%%=*}
		case $1 in
		create | delete | status)
			[[ -z $command ]] || die "two commands: $command and $1" 'Give one of create, delete and status.'
			command=$1
			;;
		--help | -h)
			usage
			exit 0
			;;
		--access-entry) access_entry=yes ;;
		--no-access-entry) access_entry=no ;;
		--queue) with_queue=yes ;;
		--spot-role) with_spot_role=yes ;;
		--dry-run) dry_run=yes ;;
		--access-entry=* | --no-access-entry=* | --queue=* | --spot-role=* | --dry-run=*) die "$flag takes no value: $1" ;;
		--namespace* | --service-account* | --auth* | --controller-role* | --node-role* | --instance-profile* | --queue-name*)
			case " $flags " in *" $flag "*) ;; *) unknown "$flag" ;; esac
			value=${1#*=}
			if [[ $1 != *=* ]]; then
				if (($# == 1)) || [[ $2 == -* ]]; then
					die "$flag needs a value" "Such as $flag NAME; see --help."
				fi
				value=$2
				shift
			fi
			[[ -n $value ]] || die "$flag needs a value, and has an empty one" 'Is a variable of the command not set?'
			flag=${flag#--}
			printf -v "${flag//-/_}" %s "$value"
			;;
		-*) unknown "$flag" ;;
		*) die "unknown command \"$1\"" 'Give one of create, delete and status; see --help.' ;;
		esac
		shift
	done
	[[ -z $queue_name ]] || with_queue=yes
	[[ -n $command ]] || die 'no command' 'Give one of create, delete and status; see --help.'
}

# valid WHAT VALUE PATTERN MOST: characters with a meaning in a policy would say something else than its document does.
valid() {
	[[ $2 =~ ^$3$ ]] || die "$1: \"$2\" is not a valid name" "It must be of the form $3."
	((${#2} <= $4)) || die "$1: \"$2\" has ${#2} characters; AWS allows $4"
}

# settle FLAG DEFAULT gives a setting that no flag set the value of the last create, or the default.
settle() {
	local variable=${1//-/_}
	[[ -z ${!variable} ]] || return 0
	if [[ $remembered =~ \"$me:$1=([^\"]*)\" ]]; then
		printf -v "$variable" %s "${BASH_REMATCH[1]}"
	else
		printf -v "$variable" %s "$2"
	fi
}

prepare() {
	[[ -n ${CLUSTER_NAME:-} ]] || die 'CLUSTER_NAME is not set' 'Set it to the name of the EKS cluster: export CLUSTER_NAME=my-cluster'
	[[ -n ${AWS_DEFAULT_REGION:-} ]] || die 'AWS_DEFAULT_REGION is not set' 'Set it to the region of the cluster: export AWS_DEFAULT_REGION=us-east-1'
	[[ ${AWS_REGION:-$AWS_DEFAULT_REGION} == "$AWS_DEFAULT_REGION" ]] || die "AWS_DEFAULT_REGION=$AWS_DEFAULT_REGION and AWS_REGION=$AWS_REGION differ" 'Set both to the region of the cluster, or unset AWS_REGION.'
	[[ ${RETRY_SECONDS:-5} =~ ^[0-9]+$ ]] || die "RETRY_SECONDS=$RETRY_SECONDS is not a number of seconds"
	readonly cluster=$CLUSTER_NAME region=$AWS_DEFAULT_REGION
	valid CLUSTER_NAME "$cluster" '[0-9A-Za-z][0-9A-Za-z_-]*' 85 # with a policy's name before it
	valid AWS_DEFAULT_REGION "$region" '[a-z0-9-]+' 32
	readonly mark=$me/$region/$cluster
	[[ -n $documents && -f $documents/managed-policies.txt ]] || die "there is no folder iam beside the folder of this script" 'Use both as they are in the repository or in the archive of a release.'
	command -v aws >/dev/null || die 'there is no aws in PATH' 'Install the AWS CLI: https://docs.aws.amazon.com/cli/'
}

# identify learns about the account and the cluster.
identify() {
	look sts get-caller-identity --query '[Account,Arn]' || true
	IFS=$'\t' read -r account caller <<<"$answer"
	[[ $account =~ ^[0-9]{12}$ && $caller == arn:*:* ]] || die "aws sts get-caller-identity: unexpected answer \"$answer\""
	partition=${caller#arn:}
	partition=${partition%%:*}
	if look eks describe-cluster --name "$cluster" --query 'cluster.[identity.oidc.issuer,accessConfig.authenticationMode]'; then
		IFS=$'\t' read -r oidc_provider mode <<<"$answer"
		oidc_provider=${oidc_provider#https://}
		oidc_arn="arn:$partition:iam::$account:oidc-provider/$oidc_provider"
	elif [[ $command == delete ]]; then
		mode=gone
		report note "cluster $cluster" "not in $region; what was made for it is looked for all the same"
	else
		look eks list-clusters --query 'clusters[]' || true
		die "CLUSTER_NAME: there is no EKS cluster \"$cluster\" in $region" "There are: $(tr '[:space:]' ' ' <<<"$answer")" 'Correct CLUSTER_NAME or AWS_DEFAULT_REGION.'
	fi
}

# complete settles what flags left open.
complete() {
	local arn trust tags remembered=
	: "${controller_role:=KarpenterControllerRole-$cluster}"
	valid --controller-role "$controller_role" '[0-9A-Za-z+=,.@_-]+' 64
	if find_role "$controller_role" && [[ $mode == gone && $trust =~ \"(arn:[^\"]*:oidc-provider/[^\"]*)\" ]]; then
		oidc_arn=${BASH_REMATCH[1]}
	fi
	settle namespace kube-system
	settle service-account karpenter
	settle auth pod-identity
	settle access-entry yes
	settle node-role KarpenterNodeInstanceRole
	settle instance-profile KarpenterNodeInstanceProfile
	[[ $remembered != *"\"$me:queue-name="* ]] || with_queue=yes
	settle queue-name "Karpenter-$cluster"
	valid --namespace "$namespace" '[a-z0-9]([a-z0-9-]*[a-z0-9])?' 63
	valid --service-account "$service_account" '[a-z0-9]([a-z0-9.-]*[a-z0-9])?' 253
	valid --node-role "$node_role" '[0-9A-Za-z+=,.@_-]+' 64
	valid --instance-profile "$instance_profile" '[0-9A-Za-z+=,.@_-]+' 128
	valid --queue-name "$queue_name" '[0-9A-Za-z_-]+' 80
	[[ $auth == pod-identity || $auth == irsa ]] || die "--auth: \"$auth\" is not known" 'It is pod-identity or irsa.'
	queue=$queue_name
	node_role_arn="arn:$partition:iam::$account:role/$node_role"
}

create() {
	if [[ $access_entry == yes && $mode == CONFIG_MAP ]]; then
		die "the cluster $cluster has the authentication mode CONFIG_MAP, and so no access entries" 'Add --no-access-entry and the role of the nodes to the ConfigMap aws-auth,' \
			"or run aws eks update-cluster-config --name $cluster --access-config authenticationMode=API_AND_CONFIG_MAP"
	fi
	[[ -z $with_spot_role ]] || ensure_spot_role
	ensure_controller_role # first, and deleted last: its tags have the names of the rest
	ensure_node_role
	ensure_instance_profile
	[[ $access_entry == no ]] || ensure_access_entry
	ensure_policies
	[[ $auth != pod-identity ]] || ensure_association
	if [[ -n $with_queue ]]; then
		ensure_queue
		ensure_rules
	fi
}

delete() {
	refuse_if_used
	delete_rules
	delete_queue
	if [[ $mode != gone ]]; then
		[[ $auth != pod-identity ]] || delete_association
		[[ $access_entry == no ]] || delete_access_entry
	fi
	delete_instance_profile
	delete_node_role
	delete_policies
	delete_oidc_provider
	delete_controller_role
}

account='' caller='' partition='' mode='' oidc_provider='' oidc_arn='' controller_role_arn='' controller_tags='' node_role_arn='' queue='' detached=' ' faults=0
parse "$@"
prepare
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
trap 'printf "interrupted; run the same command again: it goes on where it stopped\n" >&2; exit 130' INT TERM
identify
complete
case $command in
create | status) create ;;
delete) delete ;;
esac
if ((faults > 0)); then
	printf '%s\n' "$faults of these are missing or wrong" >&2
	[[ $command == create ]] || exit 1
fi
