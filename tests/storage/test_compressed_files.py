"""Compressed model files: smaller, the same when they are read, and no larger than they say.

Sizes in a zip archive are written by whoever wrote the archive. So archives are altered here byte
by byte, and the memory that it takes to refuse them is measured.
"""

import io
import json
import struct
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

from duelrank import DuelRanker, ForestDuels, KernelDuels, predict_ranks

skops_io = pytest.importorskip("skops.io")

from duelrank.storage import (  # noqa: E402
    ModelFileError,
    _archive,
    _limits,
    _members,
    describe,
    load,
    save,
    untrusted_types,
)
from duelrank.storage._packing import n_items, pack, unpack  # noqa: E402

# What is not trusted is named when it is loaded.
pytestmark = pytest.mark.filterwarnings("ignore::duelrank.storage.ModelTrustWarning")


def load_trusting(path):
    """Load a file of our own, whatever it holds."""
    return load(path, trusted=untrusted_types(path))


X, Y = load_iris(return_X_y=True)
SPARSE = sparse.csr_matrix(X)
MIB = 2**20


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.skops"


def fitted(engine=None, points=X):
    return DuelRanker(engine, random_state=0).fit(points, Y)


def plenty():
    return _limits.Allowance(2**40, "too much")


def zipped(members, method=zipfile.ZIP_DEFLATED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return buffer.getvalue()


def members_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def methods_of(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {member.filename: member.compress_type for member in archive.infolist()}


def sign(path, members, compress=True):
    """Write members to a model file with the right checksum, whatever they are."""
    members = dict(members)
    description = json.loads(members.pop("duelrank.json"))
    description.pop("checksum")
    complete = _archive._with_description(members, description)
    path.write_bytes(_members.write_members(complete, compress))


def peak_of(call):
    """Return how many bytes of memory a call takes at most, beyond what is there already."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def refusal(path, sentence):
    """Return how much memory it takes to refuse a file for this reason."""

    def read():
        for reading in (load, describe):
            with pytest.raises(ModelFileError, match=sentence):
                reading(path)

    return peak_of(read)


# Writing


def test_files_are_smaller_than_what_they_hold(path):
    ranker = fitted(ForestDuels(20))
    save(ranker, path)
    unpacked = sum(map(len, members_of(path).values()))
    assert path.stat().st_size < unpacked / 3
    assert load(path).decision_function(X).tobytes() == ranker.decision_function(X).tobytes()
    assert methods_of(path.read_bytes())["schema.json"] == zipfile.ZIP_DEFLATED


def test_only_what_shrinks_is_compressed():
    rng = np.random.RandomState(0)
    zeros, noise = bytes(10**6), rng.bytes(10**6)
    members = {
        "zeros.npy": zeros,
        "noise.npy": noise,
        "small.npy": b"",
        "noise_then_zeros.npy": noise + zeros,
        "zeros_then_noise.npy": zeros + noise,
        "coefficients.npy": rng.randn(10**5).tobytes(),
        "zeros.npz": zeros,  # its parts are compressed already
    }
    methods = methods_of(_members.write_members(members, compress=True))
    compressed = {name for name, method in methods.items() if method == zipfile.ZIP_DEFLATED}
    assert compressed == {"zeros.npy", "noise_then_zeros.npy", "zeros_then_noise.npy"}
    methods = methods_of(_members.write_members(members, compress=False))
    assert set(methods.values()) == {zipfile.ZIP_STORED}


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("size", [0, 1, 2, 4095, 4096, 4097, 10**6])
def test_members_are_read_as_they_were_written(size, compress):
    members = {
        "a.npy": bytes(size),
        "b.bin": np.random.RandomState(size).bytes(size),
        "c.json": b"[1, 2]" * size,
    }
    content = _members.write_members(members, compress)
    assert _members.read_members(content, plenty()) == members


def test_sparse_matrices_are_compressed_once(path):
    ranker = fitted(SVC(kernel="linear"), SPARSE)
    save(ranker, path)
    matrices = {n: m for n, m in members_of(path).items() if n.endswith(".npz")}
    methods = methods_of(path.read_bytes())
    assert len(matrices) > 3
    for name, matrix in matrices.items():
        assert methods[name] == zipfile.ZIP_STORED
        assert set(methods_of(matrix).values()) == {zipfile.ZIP_DEFLATED}
    expected = ranker.decision_function(SPARSE)
    assert load_trusting(path).decision_function(SPARSE).tobytes() == expected.tobytes()


def test_files_that_are_not_compressed_are_read_as_well(path):
    ranker = fitted(SVC(kernel="linear"), SPARSE)
    save(ranker, path)
    compressed = path.stat().st_size
    sign(path, members_of(path), compress=False)
    assert set(methods_of(path.read_bytes()).values()) == {zipfile.ZIP_STORED}
    assert path.stat().st_size > 2 * compressed
    expected = ranker.decision_function(SPARSE)
    assert load_trusting(path).decision_function(SPARSE).tobytes() == expected.tobytes()


def test_skops_is_given_nothing_that_is_compressed(path):
    save(fitted(SVC(kernel="linear"), SPARSE), path)
    content = _archive.skops_file(path, _archive.read_archive(path))
    assert set(methods_of(content).values()) == {zipfile.ZIP_STORED}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        matrices = [archive.read(n) for n in archive.namelist() if n.endswith(".npz")]
    assert len(matrices) > 3
    for matrix in matrices:
        assert set(methods_of(matrix).values()) == {zipfile.ZIP_STORED}


@pytest.mark.parametrize(
    "engine",
    [None, ForestDuels(3), KernelDuels(9), RandomForestClassifier(3), DummyClassifier()],
    ids=lambda e: type(e).__name__,
)
def test_objects_are_counted_before_they_are_built(engine):
    column = pack([make_pipeline(StandardScaler(), DuelRanker(engine, random_state=0)).fit(X, Y)])
    unpack(column, most=n_items(column))
    with pytest.raises(ValueError, match="more objects than it could hold"):
        unpack(column, most=n_items(column) - 1)


def test_objects_of_strange_names_are_counted():
    column = pack([{"kind": 1, "length": [2, 3], "items": {"kind": "same", "length": "x"}}])
    unpack(column, most=n_items(column))
    with pytest.raises(ValueError, match="more objects than it could hold"):
        unpack(column, most=n_items(column) - 1)


def test_a_model_of_many_equal_objects_is_not_compressed(path, monkeypatch):
    """Otherwise its file would be too small for them, and could not be loaded."""
    ranker = fitted(DummyClassifier())
    save(ranker, path)
    compressed = path.stat().st_size
    n_objects = n_items(pack([ranker]))
    monkeypatch.setattr(_limits, "MOST_OBJECTS", 0)
    monkeypatch.setattr(_limits, "OBJECTS_PER_BYTE", n_objects / (2 * compressed))
    monkeypatch.setattr(_archive, "_check_json", lambda members, size: None)
    save(ranker, path)
    assert path.stat().st_size > 2 * compressed
    assert set(methods_of(path.read_bytes()).values()) == {zipfile.ZIP_STORED}
    assert load_trusting(path).predict_ranks(X).tobytes() == ranker.predict_ranks(X).tobytes()


def test_a_model_of_much_json_is_not_compressed(path, monkeypatch):
    ranker = fitted()
    save(ranker, path)
    compressed = path.stat().st_size
    n_parts = sum(
        _limits.parts_of_json(m) for n, m in members_of(path).items() if n.endswith(".json")
    )
    monkeypatch.setattr(_limits, "MOST_OBJECTS", 0)
    monkeypatch.setattr(_limits, "OBJECTS_PER_BYTE", n_parts / (2 * compressed))
    save(ranker, path)
    assert set(methods_of(path.read_bytes()).values()) == {zipfile.ZIP_STORED}
    assert load(path).predict_ranks(X).tobytes() == ranker.predict_ranks(X).tobytes()


def test_a_model_with_many_facts_is_not_compressed(path):
    facts = {"rows": [0] * 300_000}
    save(fitted(), path, facts=facts)
    assert set(methods_of(path.read_bytes()).values()) == {zipfile.ZIP_STORED}
    load(path)
    assert describe(path).facts == facts


class Holding(FunctionTransformer):
    """A step of somebody else's, which may hold anything."""


HOLDING = f"{Holding.__module__}.Holding"
trusts_holding = pytest.mark.filterwarnings("ignore::duelrank.storage.ModelTrustWarning")


@trusts_holding
def test_a_model_that_shrinks_very_much_is_not_compressed(path, monkeypatch):
    monkeypatch.setattr(_limits, "LARGEST_UNPACKED", 0)
    model = make_pipeline(Holding(), DuelRanker(random_state=0)).fit(X, Y)
    model[0].zeros_ = np.zeros(10**6)
    save(model, path)
    assert path.stat().st_size > 8 * 10**6
    assert set(methods_of(path.read_bytes()).values()) == {zipfile.ZIP_STORED}
    loaded = load(path, trusted=[HOLDING])
    assert predict_ranks(loaded, X).tobytes() == predict_ranks(model, X).tobytes()


@trusts_holding
def test_sparse_matrices_that_shrink_very_much_are_not_compressed(path, monkeypatch):
    monkeypatch.setattr(_limits, "LARGEST_UNPACKED", 0)
    model = make_pipeline(Holding(), DuelRanker(random_state=0)).fit(X, Y)
    model[0].ones_ = sparse.csr_matrix(np.ones((5 * 10**5, 1)))
    model[0].ones_.indptr[:] = 0
    model[0].ones_.indices, model[0].ones_.data = np.zeros(0, dtype=np.int32), np.zeros(0)
    save(model, path)
    assert path.stat().st_size > 2 * 10**6
    (matrix,) = [m for n, m in members_of(path).items() if n.endswith(".npz")]
    assert set(methods_of(matrix).values()) == {zipfile.ZIP_STORED}
    loaded = load(path, trusted=[HOLDING])
    assert predict_ranks(loaded, X).tobytes() == predict_ranks(model, X).tobytes()


# Files that grow


def with_member(path, name, member, method=zipfile.ZIP_DEFLATED):
    """Save a model and add a member to its file."""
    save(fitted(), path)
    with zipfile.ZipFile(path, "a", method) as archive:
        archive.writestr(name, member)


def test_files_that_grow_too_much_are_refused_before_they_are_unpacked(path):
    with_member(path, "zeros.npy", bytes(129 * MIB))
    assert path.stat().st_size < MIB
    assert refusal(path, r"model.skops unpacks to more than the 134,217,728 bytes that") < 4 * MIB


def test_all_members_count_together(path, monkeypatch):
    monkeypatch.setattr(_limits, "LARGEST_UNPACKED", 2 * MIB)
    monkeypatch.setattr(_limits, "LARGEST_RATIO", 1)
    array = io.BytesIO()
    np.save(array, np.zeros(MIB // 8))
    save(fitted(), path)
    members = members_of(path)
    sign(path, {**members, "a.npy": array.getvalue()})
    load(path)
    sign(path, {**members, "a.npy": array.getvalue(), "b.npy": array.getvalue()})
    refusal(path, "model.skops unpacks to more than the 2,097,152 bytes that")


def test_large_files_may_unpack_to_more(path, monkeypatch):
    monkeypatch.setattr(_limits, "LARGEST_UNPACKED", 0)
    save(fitted(), path)
    array = io.BytesIO()
    np.save(array, np.zeros(MIB))
    sign(path, {**members_of(path), "noise.bin": np.random.RandomState(0).bytes(MIB // 10)})
    load(path)
    sign(path, {**members_of(path), "zeros.npy": array.getvalue()})
    assert 40 < (8 * MIB) / path.stat().st_size < 100
    load(path)
    monkeypatch.setattr(_limits, "LARGEST_RATIO", 30)
    refusal(path, "model.skops unpacks to more than the")


# Members that lie

# Where a number stands in the directory, and how it is written.
FIELDS = {
    "flag_bits": (8, "<H"),
    "compress_type": (10, "<H"),
    "CRC": (16, "<L"),
    "compress_size": (20, "<L"),
    "file_size": (24, "<L"),
    "header_offset": (42, "<L"),
}


def altered(content, name, **fields):
    """Change what the directory of an archive says about a member."""
    content = bytearray(content)
    with zipfile.ZipFile(io.BytesIO(bytes(content))) as archive:
        place = archive.start_dir
        for member in archive.infolist():
            if member.filename == name:
                break
            place += 46 + sum(struct.unpack_from("<HHH", content, place + 28))
    for field, value in fields.items():
        offset, form = FIELDS[field]
        struct.pack_into(form, content, place + offset, value)
    return bytes(content)


def alter(path, name, **fields):
    path.write_bytes(altered(path.read_bytes(), name, **fields))


def test_members_that_hold_more_than_they_claim_are_refused(path):
    """Their beginning has the checksum that the directory says."""
    with_member(path, "zeros.npy", bytes(64 * MIB))
    alter(path, "zeros.npy", file_size=1000, CRC=zlib.crc32(bytes(1000)))
    sentence = "model.skops holds 'zeros.npy', which has another size than it claims"
    assert refusal(path, sentence) < 4 * MIB


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("claimed", [0, 999, 1001, 50 * MIB])
def test_members_of_another_size_than_they_claim_are_refused(claimed, method, path):
    with_member(path, "zeros.npy", bytes(1000), method)
    alter(path, "zeros.npy", file_size=claimed)
    sentence = "model.skops holds 'zeros.npy', which has another size than it claims"
    assert refusal(path, sentence) < 4 * MIB


def test_what_follows_a_compressed_member_is_no_part_of_it(path):
    save(fitted(), path)
    packed = zlib.compressobj(wbits=-15)
    stream = packed.compress(bytes(1000)) + packed.flush() + b"more"
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("zeros.npy", stream)
    alter(path, "zeros.npy", compress_type=8, file_size=1000, CRC=zlib.crc32(bytes(1000)))
    refusal(path, "which has another size than it claims")


def test_members_that_are_cut_are_refused(path):
    """Also if all that they claim comes before the cut."""
    save(fitted(), path)
    packed = zlib.compressobj(wbits=-15)
    stream = packed.compress(bytes(1000)) + packed.flush(zlib.Z_SYNC_FLUSH)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("zeros.npy", stream)
    alter(path, "zeros.npy", compress_type=8, file_size=1000, CRC=zlib.crc32(bytes(1000)))
    refusal(path, "which has another size than it claims")


def test_members_that_are_no_compressed_data_are_refused(path):
    with_member(path, "noise.npy", b"\xff" * 1000, zipfile.ZIP_STORED)
    alter(path, "noise.npy", compress_type=8)
    refusal(path, r"model.skops is truncated or damaged \(noise.npy")


def test_members_with_another_checksum_are_refused(path):
    with_member(path, "zeros.npy", bytes(1000))
    alter(path, "zeros.npy", CRC=1)
    refusal(path, r"model.skops is truncated or damaged \(zeros.npy has another checksum\)")


def test_members_that_overlap_are_refused(path):
    """Two names for the same bytes, and one member inside another."""
    with_member(path, "a.npy", bytes(1000))
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        place = archive.getinfo("a.npy").header_offset
        archive.writestr("b.npy", bytes(1000))
    alter(path, "b.npy", header_offset=place)
    refusal(path, "model.skops holds '[ab].npy' and '[ab].npy', which overlap")
    inner = zipped({"b.npy": bytes(1000)})
    with_member(path, "a.npy", inner, zipfile.ZIP_STORED)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("b.npy", bytes(1000))
    inside = path.read_bytes().index(inner)
    alter(path, "b.npy", header_offset=inside)
    refusal(path, "model.skops holds 'a.npy' and 'b.npy', which overlap")


def test_members_of_one_byte_of_overlap_are_refused(path):
    with_member(path, "a.npy", bytes(1000), zipfile.ZIP_STORED)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("b.npy", b"")
    load_error = "model.skops holds 'a.npy', which is no array"
    refusal(path, load_error)
    alter(path, "a.npy", compress_size=1001, file_size=1001)
    refusal(path, "model.skops holds 'a.npy' and 'b.npy', which overlap")


@pytest.mark.parametrize(
    "fields",
    [
        {"header_offset": 1},
        {"header_offset": 2**31},
        {"header_offset": 2**32 - 2},
        {"compress_size": 2**31, "file_size": 1000},
    ],
)
def test_members_outside_of_the_file_are_refused(fields, path):
    with_member(path, "zeros.npy", bytes(1000))
    alter(path, "zeros.npy", **fields)
    refusal(path, "model.skops holds 'zeros.npy' in a place where it is not")


def test_members_without_their_signature_are_refused(path):
    with_member(path, "zeros.npy", bytes(1000))
    with zipfile.ZipFile(path) as archive:
        place = archive.getinfo("zeros.npy").header_offset
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    refusal(path, "model.skops holds 'zeros.npy' in a place where it is not")


def test_encrypted_members_are_refused(path):
    with_member(path, "zeros.npy", bytes(1000))
    alter(path, "zeros.npy", flag_bits=1)
    refusal(path, "model.skops holds 'zeros.npy', which is encrypted")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_methods_of_compression_are_refused(method, path):
    """They cannot be told how much to unpack, or shrink zeros to nothing."""
    with_member(path, "zeros.npy", bytes(64 * MIB), method)
    sentence = "model.skops holds 'zeros.npy', which is compressed by another method than DEFLATE"
    assert refusal(path, sentence) < 4 * MIB


def test_names_that_are_no_text_are_refused(path):
    with_member(path, "ä.npy", bytes(1000))
    name = "ä.npy".encode()
    path.write_bytes(path.read_bytes().replace(name, b"\xff" + name[1:]))
    refusal(path, "model.skops is truncated or damaged")


# Sparse matrices, which are archives inside of members


def forge(path, thing, change=lambda name, member: member):
    """Write anything as if `save` had written it, with changed members."""
    save(fitted(), path)
    description = members_of(path)["duelrank.json"]
    with zipfile.ZipFile(io.BytesIO(skops_io.dumps(thing))) as archive:
        members = {name: change(name, archive.read(name)) for name in archive.namelist()}
    sign(path, {**members, "duelrank.json": description})


def forge_matrix(path, matrix):
    """Write a model file with one sparse matrix, which is these bytes."""
    thing = {"kind": "objects", "length": 1, "values": [sparse.csr_matrix(np.eye(3))]}
    forge(path, thing, lambda name, member: matrix if name.endswith(".npz") else member)


def load_refusal(path, sentence):
    """Return how much memory it takes `load` to refuse a file for this reason."""

    def read():
        with pytest.raises(ModelFileError, match=sentence):
            load(path)

    return peak_of(read)


def matrix_members():
    buffer = io.BytesIO()
    sparse.save_npz(buffer, sparse.csr_matrix(np.eye(3)))
    with zipfile.ZipFile(buffer) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_sparse_matrices_are_read(path):
    forge_matrix(path, zipped(matrix_members()))
    load_refusal(path, "model must be a fitted DuelRanker")  # so the matrix has been read


def test_sparse_matrices_that_grow_too_much_are_refused(path):
    forge_matrix(path, zipped({**matrix_members(), "zeros.npy": bytes(129 * MIB)}))
    sentence = r"a sparse matrix in it unpacks to more than the 134,217,728 bytes that"
    assert load_refusal(path, sentence) < 8 * MIB


def test_sparse_matrices_count_together_and_with_what_else_is_compressed(path, monkeypatch):
    monkeypatch.setattr(_limits, "LARGEST_UNPACKED", 2 * MIB)
    monkeypatch.setattr(_limits, "LARGEST_RATIO", 1)
    ones = [sparse.csr_matrix(np.full((1, 60_000), float(i))) for i in range(1, 4)]
    for n_matrices in (1, 2, 3):
        forge(path, {"kind": "objects", "length": 1, "values": [ones[:n_matrices]]})
        too_many = n_matrices == 3
        sentence = "unpacks to more than the 2,097,152" if too_many else "fitted DuelRanker"
        load_refusal(path, sentence)
    # Two matrices take 1.4 MiB; zeros beside them are not allowed what is allowed to them alone.
    forge(path, {"kind": "objects", "length": 1, "values": [[ones[0], np.zeros(10**5)]]})
    load_refusal(path, "fitted DuelRanker")
    forge(path, {"kind": "objects", "length": 1, "values": [[*ones[:2], np.zeros(10**5)]]})
    load_refusal(path, "unpacks to more than the 2,097,152")


def test_sparse_matrices_that_are_compressed_twice_are_refused(path):
    """A thousandth of a thousandth would be a small file."""
    inner = zipped({**matrix_members(), "zeros.npy": bytes(129 * MIB)})
    forge_matrix(path, inner)
    members = members_of(path)
    description = json.loads(members.pop("duelrank.json"))
    description.pop("checksum")
    description["checksum"] = _archive._checksum(members, description)
    path.write_bytes(zipped({**members, "duelrank.json": json.dumps(description)}))
    assert path.stat().st_size < 50_000
    assert load_refusal(path, "unpacks to more than the 134,217,728") < 8 * MIB


def test_parts_of_sparse_matrices_that_lie_are_refused(path):
    """numpy would read all of a part that is no array."""
    matrix = zipped({**matrix_members(), "shape.npy": bytes(64 * MIB)})
    forge_matrix(path, altered(matrix, "shape.npy", file_size=10, CRC=zlib.crc32(bytes(10))))
    sentence = "a sparse matrix in it holds 'shape.npy', which has another size than it claims"
    assert load_refusal(path, sentence) < 8 * MIB


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_parts_of_sparse_matrices_must_be_compressed_the_usual_way(method, path):
    forge_matrix(path, zipped(matrix_members(), method))
    load_refusal(path, "a sparse matrix in it holds .*, which is compressed by another method")


def test_parts_of_sparse_matrices_that_overlap_are_refused(path):
    matrix = zipped(matrix_members())
    with zipfile.ZipFile(io.BytesIO(matrix)) as archive:
        place = archive.getinfo("data.npy").header_offset
    forge_matrix(path, altered(matrix, "indices.npy", header_offset=place))
    load_refusal(path, "a sparse matrix in it holds .*, which overlap")


def test_sparse_matrices_that_are_no_archives_are_refused(path):
    forge_matrix(path, b"PK\x03\x04 and nothing else")
    load_refusal(path, "a sparse matrix in it is truncated or damaged")


@pytest.mark.parametrize("ending", [".npy", ".bin"])
def test_sparse_matrices_cannot_have_other_names(ending, path):
    """Under another name, nobody would look at how much they unpack to."""
    forge_matrix(path, zipped({**matrix_members(), "zeros.npy": bytes(129 * MIB)}))
    members = members_of(path)
    (old,) = [name for name in members if name.endswith(".npz")]
    new = old.replace(".npz", ending)
    members[new] = members.pop(old)
    members["schema.json"] = members["schema.json"].replace(old.encode(), new.encode())
    sign(path, members)
    refusal(path, "as what it is not|which is no array")


def test_arrays_that_are_archives_are_refused(path):
    thing = {"kind": "objects", "length": 1, "values": [np.zeros(3)]}
    bomb = zipped({"zeros.npy": bytes(1000)})
    forge(path, thing, lambda name, member: bomb if name.endswith(".npy") else member)
    refusal(path, r"model.skops holds '.*\.npy', which is no array")


# JSON, of which a few bytes become many objects


@pytest.mark.parametrize(
    "text",
    [
        b"[" + b"{}," * MIB + b"0]",
        b"[" + b"[]," * MIB + b"0]",
        b"[" + b"1.5," * MIB + b"0]",
        b'{"content": "' + rb"\u005b\u005d\u002c" * MIB + b'"}',
        ("[" + "{}," * MIB + "0]").encode("utf-16"),
        ('"' + "\\u005b\\u005d" * MIB + '"').encode("utf-16-le"),
    ],
    ids=["dictionaries", "lists", "numbers", "hidden", "two bytes", "hidden in two bytes"],
)
@pytest.mark.parametrize("name", ["schema.json", "duelrank.json"])
def test_json_that_grows_too_much_is_refused_before_it_is_read(name, text, path):
    save(fitted(), path)
    path.write_bytes(zipped({**members_of(path), name: text}))
    assert path.stat().st_size < 200_000
    sentence = "model.skops has more than the [0-9,]+ parts of JSON that"
    assert refusal(path, sentence) < 4 * len(text)


def test_json_that_is_not_compressed_is_never_too_large(path):
    """So are the files of older versions."""
    save(fitted(), path)
    text = b"[" + b"{}," * MIB + b"0]"
    path.write_bytes(zipped({**members_of(path), "other.json": text}, zipfile.ZIP_STORED))
    refusal(path, "was altered after it was saved")


@pytest.mark.parametrize(
    "thing",
    [
        [{}] * 50,
        {"a": {"a": {"a": {}}}},
        {"a": [1, 2.5, "x,y", None, {"b": [[], []]}]},
        ["[{\\,"] * 9,
        "ü",
        3,
        [],
    ],
)
def test_parts_of_json_are_at_least_its_objects(thing):
    def objects_in(thing):
        if isinstance(thing, dict):
            return 1 + sum(map(objects_in, thing.values()))
        if isinstance(thing, list):
            return 1 + sum(map(objects_in, thing))
        return 1

    text = json.dumps(thing).encode()
    # All but the first follow a sign; a value that follows its key is counted with it.
    assert 1 + _limits.parts_of_json(text) >= objects_in(thing)
