"""Password files, which hold what nobody else may read."""

import pytest

from jobdb.address import BadAddress, parse, read_password


def write(path, data, mode=0o600):
    path.touch(mode)
    path.chmod(mode)
    path.write_bytes(data)
    return str(path)


def test_the_first_line_is_the_password(tmp_path):
    assert read_password(write(tmp_path / "a", b"se cret\r\nnot this\n")) == "se cret"
    assert read_password("") == ""


@pytest.mark.parametrize(("data", "mode", "told"), [(b"secret", 0o644, "others"), (b"secret", 0o620, "others"), (b"\nsecret", 0o600, "empty"), (b"\xff", 0o600, "UTF-8")])
def test_files_that_are_refused(tmp_path, data, mode, told):
    with pytest.raises(BadAddress, match=told) as error:
        read_password(write(tmp_path / "a", data, mode))
    assert "secret" not in str(error.value) and error.value.hint


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(BadAddress, match="No such file"):
        read_password(str(tmp_path / "none"))


def test_an_address_says_no_more_than_where_it_is():
    assert str(parse("mysql+pymysql://ada@[::1]/jobs")) == "ada@::1:3306/jobs"
    assert str(parse("mysql+pymysql://ada@/jobs?unix_socket=/run/s")) == "ada@/run/s:jobs"
