"""The document beside its reading in a browser: a link to each matrix, a corrected name."""

TEXT = """# Attention

Q = [[1, 0], [0, 2]], K = [[1, 1], [0, 1]], V = [[3, 0], [0, 3]]

We do not scale.

J = [[1, 0], [2, 3]]
"""


def test_a_name_links_to_its_matrix_and_is_corrected_by_a_click(visit):
    page = visit("#check")
    page.get_by_role("button", name="Document", exact=True).click()
    panel = page.locator("section.document")
    panel.locator("textarea").fill(TEXT)
    panel.get_by_role("button", name="Read it").click()
    panel.locator(".reading article").wait_for()
    panel.locator(".reading summary").click()
    panel.locator(".reading li button").nth(1).click()
    assert page.locator(".doc-matrix.shown").get_attribute("id") == "document-matrix-1"
    panel.locator("#document-matrix-3 .doc-name").click()
    panel.locator("#document-matrix-3 select").select_option("scores")
    panel.locator(".reading article.is-wrong").wait_for()
    assert panel.locator("#document-matrix-3 .doc-name").inner_text() == "scores"
    assert panel.locator("#document-matrix-3 td.is-wrong.is-first").inner_text() == "3"
