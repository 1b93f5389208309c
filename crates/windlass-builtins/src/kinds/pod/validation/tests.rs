//! Every rule by example: a change to a valid pod, and the resulting errors.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::validate_create;
use crate::kinds::pod::defaults;
use crate::object::set;

/// A defaulted pod with changed fields of its spec.
fn pod(changes: Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {"containers": [{"name": "c", "image": "i:1", "resources": {}}]},
    });
    for (pointer, value) in changes.as_object().into_iter().flatten() {
        set(&mut pod, pointer, value.clone());
    }
    defaults::pod(&mut pod);
    pod
}

fn check(changes: Value, expect: Expect) {
    let errors: Vec<_> = validate_create(&pod(changes)).iter().map(|error| format!("{error}\n")).collect();
    expect.assert_eq(&errors.concat());
}

#[test]
fn a_defaulted_pod_is_valid() {
    check(json!({}), expect![[""]]);
}

#[test]
fn containers_need_names_images_and_known_policies() {
    check(
        json!({"/spec/containers": [{"terminationMessagePolicy": "X"}, {"name": "a", "image": " i"}, {"name": "a", "image": "i"}]}),
        expect![[r#"
            spec.containers[0].name: Required value
            spec.containers[0].image: Required value
            spec.containers[0].terminationMessagePolicy: Unsupported value: "X": supported values: "File", "FallbackToLogsOnError"
            spec.containers[2].name: Duplicate value: "a"
            spec.containers[1].image: Invalid value: " i": must not have leading or trailing whitespace
        "#]],
    );
    check(
        json!({"/spec/ephemeralContainers": [{
            "name": "c", "image": "i", "targetContainerName": "x", "ports": [{"containerPort": 1}],
            "volumeMounts": [{"name": "v", "mountPath": "/m", "subPath": "s"}],
        }], "/spec/volumes": [{"name": "v"}]}),
        expect![[r#"
            spec.ephemeralContainers[0].name: Duplicate value: "c"
            spec.ephemeralContainers[0].targetContainerName: Not found: "x"
            spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container
            spec.ephemeralContainers[0].volumeMounts[0].subPath: Forbidden: cannot be set for an Ephemeral Container
            spec.ephemeralContainers: Forbidden: cannot be set on create
        "#]],
    );
}

#[test]
fn only_sidecars_among_init_containers_have_probes() {
    let probe = json!({"exec": {"command": ["x"]}});
    check(
        json!({"/spec/initContainers": [
            {"name": "once", "image": "i", "livenessProbe": probe, "lifecycle": {}},
            {"name": "stays", "image": "i", "restartPolicy": "Always", "livenessProbe": probe},
            {"name": "c", "image": "i", "restartPolicy": "Sometimes"},
        ]}),
        expect![[r#"
            spec.initContainers[0].lifecycle: Forbidden: may not be set for init containers without restartPolicy=Always
            spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always
            spec.initContainers[2].restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "Never", "OnFailure"
            spec.initContainers[2].name: Duplicate value: "c"
        "#]],
    );
}

#[test]
fn ports_are_numbers_in_range_with_names_of_their_own() {
    check(
        json!({"/spec/containers/0/ports": [
            {"containerPort": 0}, {"containerPort": 80, "name": "a--b"}, {"containerPort": 80, "name": "web", "hostPort": 70000},
            {"containerPort": 81, "name": "web", "protocol": "ICMP"}, {"containerPort": 82, "hostPort": 1}, {"containerPort": 83, "hostPort": 1},
        ]}),
        expect![[r#"
            spec.containers[0].ports[0].containerPort: Required value
            spec.containers[0].ports[1].name: Invalid value: "a--b": must not contain consecutive hyphens
            spec.containers[0].ports[2].hostPort: Invalid value: 70000: must be between 1 and 65535, inclusive
            spec.containers[0].ports[3].name: Duplicate value: "web"
            spec.containers[0].ports[3].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"
            spec.containers[0].ports[5].hostPort: Duplicate value: "TCP//1"
        "#]],
    );
    check(
        json!({"/spec/hostNetwork": true, "/spec/containers/0/ports": [{"containerPort": 80, "hostPort": 81}, {"containerPort": 90}]}),
        expect![[r#"
            spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true
        "#]],
    );
}

#[test]
fn variables_have_one_source() {
    check(
        json!({"/spec/containers/0/env": [
            {"name": ""}, {"name": "a", "valueFrom": {}}, {"name": "b", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "c", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}},
            {"name": "d", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a/b/c']"}}},
            {"name": "e", "valueFrom": {"fieldRef": {"fieldPath": "spec.hostname"}}},
            {"name": "f", "valueFrom": {"resourceFieldRef": {"resource": "limits.gpu"}}},
            {"name": "g", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}}},
            {"name": "h", "valueFrom": {"secretKeyRef": {"name": "", "key": "a b"}, "configMapKeyRef": {"name": "x", "key": "k"}}},
            {"name": "i", "valueFrom": {"fileKeyRef": {"key": "k", "volumeName": "v", "path": "../x"}}},
        ], "/spec/containers/0/envFrom": [{}, {"prefix": "a=", "secretRef": {"name": "Bad"}}]}),
        expect![[r#"
            spec.containers[0].env[0].name: Required value
            spec.containers[0].env[1].valueFrom: Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`
            spec.containers[0].env[2].valueFrom: Invalid value: "": may not be specified when `value` is not empty
            spec.containers[0].env[3].valueFrom.fieldRef.fieldPath: Unsupported value: "metadata.labels": supported values: "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"
            spec.containers[0].env[4].valueFrom.fieldRef: Invalid value: "a/b/c": a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')
            spec.containers[0].env[5].valueFrom.fieldRef.fieldPath: Invalid value: "spec.hostname": error converting fieldPath: field label not supported: spec.hostname
            spec.containers[0].env[6].valueFrom.resourceFieldRef.resource: Unsupported value: "limits.gpu": supported values: "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory"
            spec.containers[0].env[7].valueFrom.resourceFieldRef.divisor: Invalid value: "limits.cpu": only divisor's values 1m and 1 are supported with the cpu resource
            spec.containers[0].env[8].valueFrom.secretKeyRef.name: Invalid value: "": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            spec.containers[0].env[8].valueFrom.secretKeyRef.key: Invalid value: "a b": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')
            spec.containers[0].env[8].valueFrom: Invalid value: "": may not have more than one field specified at a time
            spec.containers[0].env[9].valueFrom.fileKeyRef.path: Invalid value: "../x": must not contain '..'
            spec.containers[0].envFrom: Invalid value: "": must specify one of: `configMapRef` or `secretRef`
            spec.containers[0].envFrom[1].prefix: Invalid value: "a=": a valid environment variable name must consist only of printable ASCII characters other than '='
            spec.containers[0].envFrom[1].secretRef.name: Invalid value: "Bad": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            spec.containers[0].env[9].valueFrom.fileKeyRef.volumeName: Not found: "v"
        "#]],
    );
}

#[test]
fn mounts_name_volumes_and_do_not_collide() {
    check(
        json!({
            "/spec/volumes": [{"name": "v"}, {"name": "d", "persistentVolumeClaim": {"claimName": "x"}}],
            "/spec/containers/0/volumeMounts": [
                {"name": "v", "mountPath": "/a", "subPath": "/abs", "subPathExpr": "a/../b"}, {"name": "v", "mountPath": "/a"},
                {"name": "d", "mountPath": "/dev/x", "mountPropagation": "Bidirectional"},
                {"name": "v", "mountPath": "/r", "recursiveReadOnly": "Enabled", "mountPropagation": "Odd"},
            ],
            "/spec/containers/0/volumeDevices": [{"name": "d", "devicePath": "/dev/x"}, {"name": "v", "devicePath": "/../y"}],
        }),
        expect![[r#"
            spec.containers[0].volumeMounts[0].name: Invalid value: "v": must not already exist in volumeDevices
            spec.containers[0].volumeMounts.subPath: Invalid value: "/abs": must be a relative path
            spec.containers[0].volumeMounts[0].subPathExpr: Invalid value: "a/../b": subPathExpr and subPath are mutually exclusive
            spec.containers[0].volumeMounts.subPathExpr: Invalid value: "a/../b": must not contain '..'
            spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/a": must be unique
            spec.containers[0].volumeMounts[1].name: Invalid value: "v": must not already exist in volumeDevices
            spec.containers[0].volumeMounts[2].name: Invalid value: "d": must not already exist in volumeDevices
            spec.containers[0].volumeMounts[2].mountPath: Invalid value: "/dev/x": must not already exist as a path in volumeDevices
            spec.containers[0].volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers
            spec.containers[0].volumeMounts[3].name: Invalid value: "v": must not already exist in volumeDevices
            spec.containers[0].volumeMounts.mountPropagation: Unsupported value: "Odd": supported values: "Bidirectional", "HostToContainer", "None"
            spec.containers[0].volumeMounts.recursiveReadOnly: Forbidden: may only be specified when readOnly is true
            spec.containers[0].volumeMounts.recursiveReadOnly: Forbidden: may only be specified when mountPropagation is None or not specified
            spec.containers[0].volumeDevices[0].name: Invalid value: "d": must not already exist in volumeMounts
            spec.containers[0].volumeDevices[0].devicePath: Invalid value: "/dev/x": must not already exist as a path in volumeMounts
            spec.containers[0].volumeDevices[1].name: Invalid value: "v": can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode
            spec.containers[0].volumeDevices[1].devicePath: Invalid value: "/../y": can not contain backsteps ('..')
            spec.containers[0].volumeDevices[1].name: Invalid value: "v": must not already exist in volumeMounts
        "#]],
    );
}

#[test]
fn volumes_have_one_source_that_is_complete() {
    check(
        json!({"/spec/volumes": [
            {"name": "A"}, {"name": "two", "emptyDir": {}, "hostPath": {"path": "/"}},
            {"name": "a", "hostPath": {"path": "/../x", "type": "Odd"}}, {"name": "b", "secret": {"defaultMode": 1024, "items": [{"key": "k", "path": "..p"}]}},
            {"name": "c", "configMap": {"items": [{"path": "/a", "mode": -1}]}}, {"name": "d", "nfs": {"path": "rel"}},
            {"name": "e", "csi": {"driver": "Bad_driver", "nodePublishSecretRef": {}}}, {"name": "f", "downwardAPI": {"items": [{"path": ""}]}},
            {"name": "g", "persistentVolumeClaim": {}}, {"name": "h", "image": {}}, {"name": "h", "emptyDir": {"sizeLimit": "-1"}},
            {"name": "i", "iscsi": {"targetPortal": "p", "iqn": "x", "lun": 300}}, {"name": "j", "azureDisk": {"diskName": "n", "diskURI": "u", "kind": "Managed"}},
        ]}),
        expect![[r#"
            spec.volumes[0].name: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
            spec.volumes[1].hostPath: Forbidden: may not specify more than 1 volume type
            spec.volumes[2].hostPath.path: Invalid value: "/../x": must not contain '..'
            spec.volumes[2].hostPath.type: Unsupported value: "Odd": supported values: "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"
            spec.volumes[3].secret.secretName: Required value
            spec.volumes[3].secret.defaultMode: Invalid value: 1024: must be a number between 0 and 0777 (octal), both inclusive
            spec.volumes[3].secret.items[0].path: Invalid value: "..p": must not start with '..'
            spec.volumes[4].configMap.name: Required value
            spec.volumes[4].configMap.items[0].key: Required value
            spec.volumes[4].configMap.items[0].path: Invalid value: "/a": must be a relative path
            spec.volumes[4].configMap.items[0].mode: Invalid value: -1: must be a number between 0 and 0777 (octal), both inclusive
            spec.volumes[5].nfs.server: Required value
            spec.volumes[5].nfs.path: Invalid value: "rel": must be an absolute path
            spec.volumes[6].csi.driver: Invalid value: "Bad_driver": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            spec.volumes[6].csi.nodePublishSecretRef.name: Required value
            spec.volumes[7].downwardAPI.path: Required value
            spec.volumes[7].downwardAPI: Required value: one of fieldRef and resourceFieldRef is required
            spec.volumes[8].persistentVolumeClaim.claimName: Required value
            spec.volumes[9].image.reference: Required value
            spec.volumes[10].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity
            spec.volumes[11].iscsi.iqn: Invalid value: "x": must be valid format starting with iqn, eui, or naa
            spec.volumes[11].iscsi.lun: Invalid value: 300: must be between 0 and 255, inclusive
            spec.volumes[12].azureDisk.diskURI: Unsupported value: "u": supported values: "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
        "#]],
    );
}

#[test]
fn projected_volumes_have_unique_paths() {
    check(
        json!({"/spec/volumes": [{"name": "p", "projected": {"sources": [
            {"secret": {"name": "s", "items": [{"key": "k", "path": "same"}]}, "configMap": {"name": "c"}},
            {"configMap": {"name": "", "items": [{"key": "k", "path": "same"}]}},
            {"serviceAccountToken": {"path": "", "expirationSeconds": 5}},
            {"downwardAPI": {"items": [{"path": "same", "fieldRef": {"fieldPath": "metadata.uid"}}]}},
        ]}}]}),
        expect![[r#"
            spec.volumes[0].projected.sources[0]: Forbidden: may not specify more than 1 volume type per source
            spec.volumes[0].projected.sources[1].configMap.name: Required value
            spec.volumes[0].projected: Invalid value: "": conflicting duplicate paths
            spec.volumes[0].projected.sources[2].serviceAccountToken.expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes
            spec.volumes[0].projected.path: Required value
            spec.volumes[0].projected: Invalid value: "same": conflicting duplicate paths
            spec.volumes[0].projected.sources[2].serviceAccountToken: Forbidden: must not be specified when serviceAccountName is not set
        "#]],
    );
}

#[test]
fn ephemeral_volumes_are_claims_of_the_pod() {
    check(
        json!({"/spec/volumes": [
            {"name": "a", "ephemeral": {"volumeClaimTemplate": {
                "metadata": {"name": "x", "labels": {"-": "v"}},
                "spec": {"accessModes": ["ReadWriteOncePod", "ReadWriteOnce", "Odd"], "resources": {"requests": {"storage": "0"}}, "volumeMode": "Disk"},
            }}},
            {"name": "b", "ephemeral": {}}, {"name": "c", "persistentVolumeClaim": {"claimName": "p-a"}},
        ]}),
        expect![[r#"
            spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.labels: Invalid value: "-": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.name: Forbidden: cannot be set
            spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes: Unsupported value: "Odd": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"
            spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes
            spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources[storage]: Invalid value: "0": must be greater than zero
            spec.volumes[0].ephemeral.volumeClaimTemplate.spec.volumeMode: Unsupported value: "Disk": supported values: "Block", "Filesystem"
            spec.volumes[1].ephemeral.volumeClaimTemplate: Required value
            spec.volumes[2].persistentVolumeClaim.claimName: Invalid value: "p-a": must not reference a PVC that gets created for an ephemeral volume
        "#]],
    );
}

#[test]
fn requests_stay_below_limits() {
    check(
        json!({"/spec/containers/0/resources": {
            "limits": {"cpu": "1", "gpu": "1", "example.com/gpu": "1.5", "hugepages-2Mi": "3Mi", "memory": "-1"},
            "requests": {"cpu": "2", "example.com/gpu": "1", "a/b/c": "1", "hugepages-2Mi": "3Mi", "memory": "-1"},
        }}),
        expect![[r#"
            spec.containers[0].resources.limits[example.com/gpu]: Invalid value: "1500m": must be an integer
            spec.containers[0].resources.limits[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified
            spec.containers[0].resources.limits[gpu]: Invalid value: "gpu": must be a standard resource for containers
            spec.containers[0].resources.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi
            spec.containers[0].resources.limits[memory]: Invalid value: "-1": must be greater than or equal to 0
            spec.containers[0].resources.requests[a/b/c]: Invalid value: "a/b/c": a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')
            spec.containers[0].resources.requests[a/b/c]: Invalid value: "a/b/c": doesn't follow extended resource name standard
            spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources
            spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1
            spec.containers[0].resources.requests: Invalid value: "1": must be equal to example.com/gpu limit of 1500m
            spec.containers[0].resources.requests[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified
            spec.containers[0].resources.requests[gpu]: Invalid value: "gpu": must be a standard resource for containers
            spec.containers[0].resources.requests[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi
            spec.containers[0].resources.requests[memory]: Invalid value: "-1": must be greater than or equal to 0
        "#]],
    );
    check(
        json!({
            "/spec/containers/0/resources": {"requests": {"hugepages-1Gi": "1Gi"}, "claims": [{"name": "x"}, {"name": "x"}]},
            "/spec/resources": {"limits": {"cpu": "1", "storage": "1"}, "requests": {"memory": "1Mi"}},
            "/spec/overhead": {"cpu": "-1"},
        }),
        expect![[r#"
            spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources
            spec.containers[0].resources: Forbidden: HugePages require cpu or memory
            spec.containers[0].resources.claims[0]: Not found: "x": must be one of the names in pod.spec.resourceClaims which is empty
            spec.containers[0].resources.claims[1]: Duplicate value: "x"
            spec.containers[0].resources.claims[1]: Not found: "x": must be one of the names in pod.spec.resourceClaims which is empty
            spec.resources.limits[storage]: Unsupported value: "storage": supported values: "cpu", "hugepages-", "memory"
            spec.overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0
        "#]],
    );
}

#[test]
fn probes_and_hooks_have_one_handler() {
    check(
        json!({
            "/spec/containers/0/livenessProbe": {"exec": {}, "tcpSocket": {"port": 80}, "successThreshold": 2, "periodSeconds": -1},
            "/spec/containers/0/readinessProbe": {"httpGet": {"port": "Bad Port", "scheme": "FTP", "httpHeaders": [{"name": "a b"}]}, "terminationGracePeriodSeconds": 3},
            "/spec/containers/0/startupProbe": {"grpc": {"port": 0}, "terminationGracePeriodSeconds": 0},
            "/spec/containers/0/lifecycle": {"preStop": {"sleep": {"seconds": 31}}, "postStart": {}},
        }),
        expect![[r#"
            spec.containers[0].lifecycle.postStart: Required value: must specify a handler type
            spec.containers[0].lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)
            spec.containers[0].livenessProbe.exec.command: Required value
            spec.containers[0].livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type
            spec.containers[0].livenessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0
            spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1
            spec.containers[0].readinessProbe.httpGet.port: Invalid value: "Bad Port": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)
            spec.containers[0].readinessProbe.httpGet.scheme: Unsupported value: "FTP": supported values: "HTTP", "HTTPS"
            spec.containers[0].readinessProbe.httpGet.httpHeaders: Invalid value: "a b": a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')
            spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 3: must not be set for readinessProbes
            spec.containers[0].startupProbe.grpc.port: Invalid value: 0: must be between 1 and 65535, inclusive
            spec.containers[0].startupProbe.terminationGracePeriodSeconds: Invalid value: 0: must be greater than 0
        "#]],
    );
}

#[test]
fn security_contexts_are_consistent() {
    check(
        json!({
            "/spec/containers/0/securityContext": {
                "privileged": true, "allowPrivilegeEscalation": false, "runAsUser": -1, "procMount": "Unmasked",
                "seccompProfile": {"type": "RuntimeDefault", "localhostProfile": "x"}, "appArmorProfile": {"type": "Localhost"},
            },
            "/spec/securityContext": {
                "fsGroup": 3_000_000_000_u32, "sysctls": [{"name": "net.ipv4.x"}, {"name": "net.ipv4.x"}, {"name": "A"}],
                "fsGroupChangePolicy": "X", "supplementalGroups": [-1], "windowsOptions": {"runAsUserName": "a\\b\\c"},
                "supplementalGroupsPolicy": "X", "seLinuxChangePolicy": "X",
            },
            "/spec/hostNetwork": true, "/spec/hostPID": true, "/spec/shareProcessNamespace": true,
        }),
        expect![[r#"
            spec.containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive
            spec.containers[0].securityContext.procMount: Invalid value: "Unmasked": `hostUsers` must be false to use `Unmasked`
            spec.containers[0].securityContext.seccompProfile.localhostProfile: Invalid value: {"Type":"RuntimeDefault","LocalhostProfile":"x"}: can only be set when seccomp type is Localhost
            spec.containers[0].securityContext: Invalid value: {"Capabilities":null,"Privileged":true,"SELinuxOptions":null,"WindowsOptions":null,"RunAsUser":-1,"RunAsGroup":null,"RunAsNonRoot":null,"ReadOnlyRootFilesystem":null,"AllowPrivilegeEscalation":false,"ProcMount":"Unmasked","SeccompProfile":{"Type":"RuntimeDefault","LocalhostProfile":"x"},"AppArmorProfile":{"Type":"Localhost","LocalhostProfile":null}}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true
            spec.containers[0].securityContext.appArmorProfile.localhostProfile: Required value: must be set when AppArmor type is Localhost
            spec.securityContext.fsGroup: Invalid value: 3000000000: must be between 0 and 2147483647, inclusive
            spec.securityContext.supplementalGroups[0]: Invalid value: -1: must be between 0 and 2147483647, inclusive
            spec.securityContext.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled
            spec.securityContext.sysctls[0].name: Invalid value: "net.ipv4.x": may not be specified when 'hostNetwork' is true
            spec.securityContext.sysctls[1].name: Duplicate value: "net.ipv4.x"
            spec.securityContext.sysctls[1].name: Invalid value: "net.ipv4.x": may not be specified when 'hostNetwork' is true
            spec.securityContext.sysctls[2].name: Invalid value: "A": must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$
            spec.securityContext.fsGroupChangePolicy: Unsupported value: "X": supported values: "Always", "OnRootMismatch"
            spec.securityContext.windowsOptions.runAsUserName: Invalid value: "a\\b\\c": runAsUserName cannot contain more than one backslash
            spec.securityContext.supplementalGroupsPolicy: Unsupported value: "X": supported values: "Merge", "Strict"
            spec.securityContext.seLinuxChangePolicy: Unsupported value: "X": supported values: "Recursive"
        "#]],
    );
    check(
        json!({"/spec/hostUsers": false, "/spec/hostPID": true, "/spec/os": {"name": "windows"}, "/spec/securityContext": {"runAsUser": 1}}),
        expect![[r#"
            spec.HostPID: Forbidden: when `hostUsers` is false
            spec.hostUsers: Forbidden: cannot be set for a windows pod
            spec.hostPID: Forbidden: cannot be set for a windows pod
            spec.securityContext.runAsUser: Forbidden: cannot be set for a windows pod
        "#]],
    );
}

#[test]
fn scheduling_rules_are_well_formed() {
    check(
        json!({
            "/spec/nodeSelector": {"a b": "c d"},
            "/spec/affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "k", "operator": "Gt", "values": []}], "matchFields": [{"key": "x", "operator": "Exists"}]}]},
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "preference": {}}],
                },
                "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "", "namespaces": ["A"], "matchLabelKeys": ["x"]}]},
            },
            "/spec/tolerations": [
                {"operator": "Equal", "value": "v"}, {"key": "k", "operator": "Exists", "value": "v", "effect": "Maybe", "tolerationSeconds": 1},
                {"key": "k", "operator": "Lt", "value": "1"}, {"key": "k", "operator": "Odd"},
            ],
            "/spec/topologySpreadConstraints": [
                {"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "X", "minDomains": 0, "nodeTaintsPolicy": "X"},
                {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "X", "labelSelector": {"matchExpressions": [{"key": "k", "operator": "In"}]}},
            ],
            "/spec/readinessGates": [{"conditionType": ""}], "/spec/schedulingGates": [{"name": "g"}, {"name": "g"}], "/spec/nodeName": "n",
        }),
        expect![[r#"
            spec.nodeSelector: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            spec.nodeSelector: Invalid value: "c d": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
            spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'
            spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].operator: Invalid value: "Exists": not a valid selector operator
            spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].key: Invalid value: "x": not a valid field selector key
            spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be in the range 1-100
            spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespace: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
            spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set
            spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value: can not be empty
            spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Invalid value: "": name part must be non-empty
            spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            spec.readinessGates[0].conditionType: Invalid value: "": name part must be non-empty
            spec.readinessGates[0].conditionType: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            spec.schedulingGates[1]: Duplicate value: "g"
            spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero
            spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "X": supported values: "DoNotSchedule", "ScheduleAnyway"
            spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{z, X}"
            spec.topologySpreadConstraints[0].minDomains: Invalid value: 0: must be greater than zero
            spec.topologySpreadConstraints[0].minDomains: Invalid value: 0: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not X
            spec.topologySpreadConstraints[0].nodeTaintsPolicy: Unsupported value: "X": supported values: "Honor", "Ignore"
            spec.topologySpreadConstraints[1].whenUnsatisfiable: Unsupported value: "X": supported values: "DoNotSchedule", "ScheduleAnyway"
            spec.topologySpreadConstraints[1].labelSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'
            spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, which means "match all values and all keys"
            spec.tolerations[1].effect: Invalid value: "Maybe": effect must be 'NoExecute' when `tolerationSeconds` is set
            spec.tolerations[1].operator: Invalid value: "v": value must be empty when `operator` is 'Exists'
            spec.tolerations[1].effect: Unsupported value: "Maybe": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"
            spec.tolerations[2].operator: Unsupported value: "Lt": supported values: "Equal", "Exists", "Lt", "Gt"
            spec.tolerations[3].operator: Unsupported value: "Odd": supported values: "Equal", "Exists"
            spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared
        "#]],
    );
}

#[test]
fn names_addresses_and_numbers_of_the_spec_are_in_range() {
    check(
        json!({
            "/spec/dnsPolicy": "None", "/spec/restartPolicy": "Sometimes", "/spec/serviceAccountName": "A", "/spec/activeDeadlineSeconds": 0,
            "/spec/hostname": "a.b", "/spec/hostAliases": [{"ip": "x", "hostnames": ["A"]}], "/spec/preemptionPolicy": "X", "/spec/os": {"name": "plan9"},
            "/spec/hostnameOverride": "", "/spec/runtimeClassName": "", "/spec/imagePullSecrets": [{}],
        }),
        expect![[r#"
            spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"
            spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None
            spec.hostnameOverride: Invalid value: "": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            spec.serviceAccountName: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive
            spec.hostname: Invalid value: "a.b": must not contain dots
            spec.hostAliases[0].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
            spec.hostAliases[0].hostnames[0]: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            spec.runtimeClassName: Invalid value: "": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            spec.preemptionPolicy: Unsupported value: "X": supported values: "PreemptLowerPriority", "Never"
            spec.os: Unsupported value: "plan9": supported values: "linux", "windows"
        "#]],
    );
    check(
        json!({"/spec/dnsConfig": {"nameservers": ["1.2.3.4", "01.2.3.4", "x", "::1"], "searches": [".", "a_b.", "-"], "options": [{}]}}),
        expect![[r#"
            spec.dnsConfig.nameservers: Invalid value: ["1.2.3.4","01.2.3.4","x","::1"]: must not have more than 3 nameservers
            spec.dnsConfig.nameservers[1]: Invalid value: "01.2.3.4": must not have leading 0s
            spec.dnsConfig.nameservers[2]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
            spec.dnsConfig.searches[2]: Invalid value: "-": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')
            spec.dnsConfig.options[0]: Required value: must not be empty
        "#]],
    );
}

#[test]
fn known_annotations_are_validated() {
    check(
        json!({"/metadata/annotations": {
            "kubernetes.io/config.mirror": "x", "controller.kubernetes.io/pod-deletion-cost": "+1",
            "seccomp.security.alpha.kubernetes.io/pod": "odd", "container.apparmor.security.beta.kubernetes.io/x": "odd",
            "container.seccomp.security.alpha.kubernetes.io/c": "unconfined",
        }, "/spec/containers/0/securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}),
        expect![[r#"
            metadata.annotations[kubernetes.io/config.mirror]: Invalid value: "x": must set spec.nodeName if mirror pod annotation is set
            metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "+1": must be a 32bit integer
            metadata.annotations.seccomp.security.alpha.kubernetes.io/pod: Invalid value: "odd": must be a valid seccomp profile
            metadata.annotations[container.apparmor.security.beta.kubernetes.io/x]: Invalid value: "x": container not found
            metadata.annotations[container.apparmor.security.beta.kubernetes.io/x]: Invalid value: "odd": invalid AppArmor profile name: "odd"
            spec.containers[0].securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match
        "#]],
    );
}
